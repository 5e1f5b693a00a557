"""The lab: the papers' figures, the demo, and the seeded workloads that they share with tests and benchmarks.

reproduce       a module per paper: figures, findings, checks
demo            traffic that is watched live
workloads       intervals, boxes, bands, values and moves from a seed
"""
