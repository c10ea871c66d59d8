"""Claims of papers, measured at small sizes: what the rooms share, and the claims of the ISC2021 paper."""
