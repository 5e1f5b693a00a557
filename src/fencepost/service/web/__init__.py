"""The service over HTTP.

app       makes the FastAPI application: middleware, routes, and the place where pages are mounted
answers   JSON of rules and events; refusals as JSON
rules, rows, events, state      the routes
"""
