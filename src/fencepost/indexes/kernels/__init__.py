"""Compiled pieces that several structures share.

addresses       arrays by their addresses: one table stands for many
vectors, lanes  wide copies; 16-bit keys compared many at once
radix           positions sorted by a key
id_map, strings from int64 keys and from strings to small numbers
answers         answers of several structures, checked further and joined
damping         one pass over what happens to damped pairs
checksum        damage is found; blake2b makes the ids of events
"""
