"""The service over HTTP.

app             makes the FastAPI application: middleware, routes, and the place where pages are mounted
straight        the routes that programs call for every row, answered before the framework is asked
rules, rows, events, state      the other routes; stream for those who follow events, endings for their end
doors           who may do what; bodies are read only then
answers         JSON of rules and events; refusals as JSON; headers of every answer
measures        figures for Prometheus
serving         where it listens, by protocol; standing is all of the web that `fencepost serve` imports
"""
