module shardmill/tests/remote/proxy

go 1.22
