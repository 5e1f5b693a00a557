"""Box indexes: which boxes contain a point?"""
