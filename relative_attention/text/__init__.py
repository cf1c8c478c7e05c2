"""Text as people type it and as models read it: strings in, strings out.

form          the one form of text, in Python and in graphs
sentences     lines as sentences
case          capitals, Title Case and lowercase in usual case
patterns      expressions that find what must not be translated
signs         signs in a text that is searched, and what they stand for
placeholders  signs in the place of what must not be translated
prepared      all of it: a line as what a model searches, and back
"""
