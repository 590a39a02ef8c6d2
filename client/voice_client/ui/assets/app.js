// Defines the live part of each tab as an element of its own.
import "./speak.js";
import "./talk.js";
import "./transcribe.js";
