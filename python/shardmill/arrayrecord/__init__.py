"""ArrayRecord files: records by index, with the API of array_record 0.8.6.

Where array_record fails silently, these classes raise, unless ``strict=False`` selects its
behavior. Programs that import ``array_record`` use these classes after ``install_as_array_record``.

Examples:
    >>> from shardmill.arrayrecord import ArrayRecordReader, ArrayRecordWriter
    >>> with ArrayRecordWriter("digits.array_record", "zstd:5") as writer:
    ...     for digit in range(10):
    ...         writer.write(str(digit).encode())
    >>> with ArrayRecordReader("digits.array_record") as reader:
    ...     len(reader), reader[3], reader.read([7, 1])
    (10, b'3', [b'7', b'1'])
"""

from shardmill.arrayrecord._data_source import ArrayRecordDataSource, FileInstruction
from shardmill.arrayrecord._install import install_as_array_record
from shardmill.arrayrecord._reader import ArrayRecordReader
from shardmill.arrayrecord._writer import ArrayRecordWriter

__all__ = [
    "ArrayRecordDataSource",
    "ArrayRecordReader",
    "ArrayRecordWriter",
    "FileInstruction",
    "install_as_array_record",
]
