"""ArrayRecord files: records by number, with the calls of array_record 0.8.6.

Where array_record fails without a word, these classes raise, unless ``strict=False`` asks for its ways; programs that import
``array_record`` are served by them after :func:`install_as_array_record`.

Example:
    >>> from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter
    >>> with ArrayRecordWriter("digits.array_record", "zstd:5") as writer:
    ...     for digit in range(10):
    ...         writer.write(str(digit).encode())
    >>> with ArrayRecordReader("digits.array_record") as reader:
    ...     len(reader), reader[3], reader.read([7, 1])
    (10, b'3', [b'7', b'1'])
"""

from shardmill.arrayrecord.data_source import ArrayRecordDataSource, FileInstruction
from shardmill.arrayrecord.install import install_as_array_record
from shardmill.arrayrecord.reader import ArrayRecordReader
from shardmill.arrayrecord.writer import ArrayRecordWriter

__all__ = [
    "ArrayRecordDataSource",
    "ArrayRecordReader",
    "ArrayRecordWriter",
    "FileInstruction",
    "install_as_array_record",
]
