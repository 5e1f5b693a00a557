"""Files and where they are.

whole           files that are written whole; notes, with a checksum
storage         paths and URLs, behind one set of functions
local_copies    what a URL holds, as files of this host
kept            work that is kept for the next process of this user
native          files for Arrow, whatever their names
recent          what was used last and may be wanted again
"""
