/**
 * Octets of a request head, above which uWebSockets.js itself closes with 431, in HTML of its own. It reads this from the
 * environment once, when it is loaded, so this module has to be evaluated before. It is far above what we refuse in our
 * own words. Cookies don't count there: pages of any port of this host can set as many as a browser keeps (180 of 4 KiB),
 * and would shut the operator's browser out for good.
 */
process.env.UWS_HTTP_MAX_HEADERS_SIZE = String(1024 * 1024);

export {};
