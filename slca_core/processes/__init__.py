"""Child processes on a machine that may fail: started fast, watched, ended with their parent, nothing of them left."""
