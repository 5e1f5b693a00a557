"""Match arrays in five lines."""

import fencepost as fp

rules = fp.Rules()
rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50")
rules.add(2, "price >= 120 OR volume > 1e6")
matches = rules.compile().match({"symbol": ["IBM", "AAPL"], "price": [41.5, 130.0], "volume": [10.0, 20.0]})
print([ids.tolist() for ids in matches])
