"""Text as people type it and as models read it: strings in, strings out.

form          the one form of text, in Python and in graphs
sentences     lines as sentences
case          capitals, Title Case and lowercase in usual case
placeholders  signs in the place of what must not be translated
prepared      all of it: a line as what a model searches, and back
"""
