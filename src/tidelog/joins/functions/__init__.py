"""Functions of the language inside kernels: texts, conversions, dates, JSON and numbers, for arguments of usual forms.

Whatever a kernel does not know for certain, it leaves to Python (`language.functions`), which also says why a call has
no value. So what is here is never more than a faster way to the same result.
"""
