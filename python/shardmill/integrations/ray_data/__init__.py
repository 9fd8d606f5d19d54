"""Reads and writes data sets of Ray Data with the readers and writers of shardmill.

Public API of Ray that is used: ``ray.data.Datasource``, ``read_datasource``,
``Dataset.write_datasink``, ``DataContext`` with ``set_config`` and ``get_config``, ``ray.nodes``,
``NodeAffinitySchedulingStrategy``.

These names are exported, but marked as DeveloperAPI: ``ray.data.Datasink``, ``ray.data.ReadTask``,
``ray.data.datasource.WriteResult``, ``ray.data.block.BlockMetadata`` and ``BlockAccessor``, and the
property ``Dataset.context``. ``TaskContext``, which Ray passes to ``Datasink.write``, is internal;
only its ``task_idx`` is read. ``Datasource`` itself is public, but its methods for pushdown, and
the attributes ``_projection_map`` and ``_predicate_expr`` that they use, are documented nowhere.

Works with Ray 2.60. Invariants: a read task opens no files but its own, and a file of a write is
visible only after all tasks have succeeded.
"""
