/**
 * Octets of a request head, above which uWebSockets.js itself closes with 431, in HTML of its own. It reads this from the
 * environment once, when it is loaded, so this module has to be evaluated before. It is far above what we refuse in our
 * own words, and far below what would fill the memory; its default, 4 KiB, would refuse browsers.
 */
process.env.UWS_HTTP_MAX_HEADERS_SIZE = String(128 * 1024);

export {};
