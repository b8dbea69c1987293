import { hostName, isForeign, isLoopback, type RequestOrigin } from '../http/request-origin.ts';
import { sameText } from '../service/same-text.ts';

export interface AccessPolicy {
  /** Where the HTTP server listens, as given to `listen`. */
  readonly listenAddress: string;
  /** Opens the dashboard for reading and writing; '' or undefined for none. */
  readonly token: string | undefined;
  /** Opens it for reading only; '' or undefined for none. */
  readonly readToken?: string | undefined;
}

/** The parts of an HTTP request that the decision rests on; a header that was not sent is undefined. */
export interface AccessRequest extends RequestOrigin {
  readonly method: string;
  /** As it came over the wire, undecoded. */
  readonly rawUrl: string;
  readonly authorization: string | undefined;
}

export type AccessDecision = { readonly allowed: true; readonly mayWrite: boolean } | AccessRefusal;

export interface AccessRefusal {
  readonly allowed: false;
  readonly status: 401 | 403 | 404;
  readonly message: string;
}

/**
 * Who may do what on the dashboard: whoever shows the token may read and write, whoever shows the one for reading may read;
 * without either, whoever is on this machine may read. Beyond loopback there is no dashboard without a token.
 */
export function decideAccess(policy: AccessPolicy, request: AccessRequest): AccessDecision {
  if (hasPathTrick(request.rawUrl)) return refuse(404, 'no such page');
  const mayWrite = showsToken(policy.token, request.authorization);
  if (policy.token || policy.readToken) {
    if (!mayWrite && !showsToken(policy.readToken, request.authorization)) {
      return refuse(401, 'the dashboard needs its token: Authorization: Bearer TOKEN, or TOKEN as the password');
    }
  } else if (!isLoopback(policy.listenAddress)) {
    return refuse(403, `the dashboard needs a token beyond loopback: ${TOKEN_HINT}`);
  } else if (!isLoopback(hostName(request.host))) {
    // A proxy on this machine, or a foreign name that was made to resolve to it: not a local reader either way.
    return refuse(403, `without a token the dashboard answers to this machine's own name only: ${TOKEN_HINT}`);
  }
  if (isRead(request.method)) return { allowed: true, mayWrite };
  if (policy.token && !mayWrite)
    return refuse(403, 'this token only shows: to change something, use that of --dashboard-token');
  if (!policy.token) return refuse(403, `without a token the dashboard only shows: to change something, ${TOKEN_HINT}`);
  if (isForeign(request)) return refuse(403, 'the request comes from another site');
  return { allowed: true, mayWrite };
}

const TOKEN_HINT = 'start with --dashboard-token TOKEN';

/** No route of the board needs an encoded slash, backslash or dot, so such a path only hopes to be read in two ways. */
function hasPathTrick(rawUrl: string): boolean {
  const query = rawUrl.indexOf('?');
  const path = query < 0 ? rawUrl : rawUrl.slice(0, query);
  return /%(?:2e|2f|5c|25|00)|\\|\/\/|\/\.\.?(?:\/|$)/i.test(path);
}

function showsToken(token: string | undefined, authorization: string | undefined): boolean {
  if (!token) return false;
  const match = /^(bearer|basic) +(\S+)$/i.exec(authorization ?? '');
  if (!match?.[1] || match[2] === undefined) return false;
  return match[1].toLowerCase() === 'bearer' ? sameText(match[2], token) : sameText(basicPassword(match[2]), token);
}

/** The user name is not looked at. */
function basicPassword(encoded: string): string {
  const pair = Buffer.from(encoded, 'base64').toString('utf8');
  return pair.slice(pair.indexOf(':') + 1);
}

function isRead(method: string): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Browsers send a stored Basic password along with requests that another site caused. */
function refuse(status: AccessRefusal['status'], message: string): AccessRefusal {
  return { allowed: false, status, message };
}
