"""`tidelog serve`: a durable knowledge base that many share over HTTP.

`running` puts the parts together and has the sockets. `endpoints` answers paths: it takes `requests` apart, hands
updates to the one writer of `commits`, asks `questions`, and begins the streams of `subscriptions`. What lies here is
for all of them.
"""
