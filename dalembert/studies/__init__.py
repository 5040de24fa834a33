"""8 · studies: many machines: what varies, what is measured of each, and a folder that survives whatever happens."""
