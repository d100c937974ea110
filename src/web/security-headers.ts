import { FRAME_SANDBOX } from './pages/message-props.ts';

/** For every page of our own. Scripts and styles come from this server only, and nothing may be made of text. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

/** For the HTML of a message, in its frame or opened by its own address: inline styles and its own pictures only. */
export const MAIL_POLICY = [
  `sandbox ${FRAME_SANDBOX}`,
  "default-src 'none'",
  'img-src data:',
  "style-src 'unsafe-inline'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ');

/** For what is only ever saved, and for pictures: opened by their own address, they can do nothing either. */
export const DOWNLOAD_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'";

const EVERYWHERE: Readonly<Record<string, string>> = {
  'content-security-policy': PAGE_POLICY,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  // A name that a link leads to is asked for when the link is followed, and not before.
  'x-dns-prefetch-control': 'off',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
};

/** Puts the headers that every response has on one, where it does not have its own. */
export function secured(response: Response): Response {
  for (const [name, value] of Object.entries(EVERYWHERE))
    if (!response.headers.has(name)) response.headers.set(name, value);
  // Older than frame-ancestors, which says it better where a frame of our own is meant.
  if (response.headers.get('content-security-policy') === MAIL_POLICY)
    response.headers.delete('x-frame-options');
  return response;
}
