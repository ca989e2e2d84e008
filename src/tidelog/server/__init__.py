"""`tidelog serve`: a durable knowledge base that many share over HTTP.

`store` opens it, `writer` changes it, `reading` asks it, `hub` tells subscribers; `application` is what speaks HTTP.
"""
