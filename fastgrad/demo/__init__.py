"""``fastgrad demo``: train on handwritten digits, watch the gradients, write a report.

=========================  =================================================================
`fastgrad.demo.data`       the digits, split and standardised
`fastgrad.demo.model`      the network
`fastgrad.demo.gradients`  the hooks that record gradient norms, and what they cost
`fastgrad.demo.train`      the training loop
`fastgrad.demo.figures`    curves and digits as pictures
`fastgrad.demo.report`     the page
`fastgrad.demo.app`        what the command runs: all of the above, and what it prints
=========================  =================================================================
"""
