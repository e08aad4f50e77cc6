"""The class Q: what is asked, and how far one unit moves it. How it is counted is said in `conspectus.counting`."""
