"""From rows of a data set to batches of one rank: order, mixtures, packing, state, reports."""
