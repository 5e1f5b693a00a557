"""A file per subcommand, registered in `fencepost.cli.app`.

rules, tables       the book: shown and changed; tables of rules that go into it
publish, tick       a version or a time for streams
match, backtest     rules over a file; why says which rule was behind one event
explain, verify     which structure serves which rules, and whether it is right
pipeline            check, run and connector; status and deliveries say what became of them
catalogue, version  what there is
serve, token        the engine as a process that one can call, and who may
lab                 demo and reproduce, which only a clone has
"""
