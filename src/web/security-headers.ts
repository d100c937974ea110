import { FRAME_SANDBOX } from './pages/message-props.ts';

/** For our own pages. Scripts and styles come only from this server, and text can never become code. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "manifest-src 'self'",
  "frame-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ');

/** For a message's HTML, in its frame or opened directly: only inline styles and its own pictures. */
export const MAIL_POLICY = [
  `sandbox ${FRAME_SANDBOX}`,
  "default-src 'none'",
  'img-src data:',
  "style-src 'unsafe-inline'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'self'",
].join('; ');

/** For downloads and pictures, which cannot run anything even when opened directly. */
export const DOWNLOAD_POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'";

const EVERYWHERE: Readonly<Record<string, string>> = {
  'content-security-policy': PAGE_POLICY,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  // Names in links are resolved only when a link is followed.
  'x-dns-prefetch-control': 'off',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
};

export function withSecurityHeaders(response: Response): Response {
  for (const [name, value] of Object.entries(EVERYWHERE))
    if (!response.headers.has(name)) response.headers.set(name, value);
  // X-Frame-Options predates frame-ancestors, which allows our own frames.
  if (response.headers.get('content-security-policy') === MAIL_POLICY)
    response.headers.delete('x-frame-options');
  return response;
}
