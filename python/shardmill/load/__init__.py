"""From the rows of a data set to the batches of one rank: order, mixtures, packing, state, reports."""
