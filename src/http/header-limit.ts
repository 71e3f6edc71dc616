/**
 * Octets of a request head; more is answered with 431. uWebSockets.js reads it from the environment once, when it is
 * loaded, so this module has to be evaluated before: its own 4 KiB would refuse browsers, which send the cookies of
 * every other server on `localhost` along.
 */
process.env.UWS_HTTP_MAX_HEADERS_SIZE = String(16 * 1024);

export {};
