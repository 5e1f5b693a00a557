"""Files and where they are.

whole.py: files that are written whole. storage.py: paths and URLs, behind one set of functions. local_copies.py: what
a URL holds, as files of this host. native.py: files for Arrow, whatever their
names. recent.py: what was used last and may be wanted again.
"""
