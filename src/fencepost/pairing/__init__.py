"""Pairs of rows of two streams, and the band rules over them.

engine          rows and rule changes in, detections out
rows            rows of one side, read and ordered; sides remembers those of both
rules           band rules, by slot
conditions      what bands compute of rows, and the conditions that rows of one side meet
indexes, join   one SSI for each pair of columns that bands subtract
batch           what the rows of one batch do there
damping         damped bands
"""
