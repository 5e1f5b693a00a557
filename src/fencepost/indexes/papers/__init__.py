"""The structures of the papers, and the machinery that only they need; not on the production path.

ui, sci, lci, cei, acei     intervals on virtual constructs, with constructs, construct_lists, listed, stepped, arena
islist, skiplist            the interval skip list and its kernels; interval_tree is static
vcr, rtree                  rectangles, with their kernels
bmq, diff                   moving values: borders, and the difference of two answers
quadratic, blocks, stabbing bands, by Lemmas 1 to 5; static_bands is what they share
linear_*                    everything compared: the references
"""
