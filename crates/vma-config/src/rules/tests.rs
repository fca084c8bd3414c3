mod grammar;
mod matching;
mod selection;
