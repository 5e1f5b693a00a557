"""The lab: the papers' figures, the demo, and the seeded workloads that they share with tests and benchmarks."""
