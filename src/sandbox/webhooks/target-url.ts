import { BlockList, isIP } from 'node:net';

/** Addresses that lead back into one's own machine or network (RFC 6890). */
const INSIDE = new BlockList();
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.168.0.0', 16],
] as const) {
  INSIDE.addSubnet(network, bits, 'ipv4');
}
for (const [network, bits] of [
  ['::', 127],
  ['fc00::', 7],
  ['fe80::', 10],
] as const) {
  INSIDE.addSubnet(network, bits, 'ipv6');
}

/**
 * What is wrong with a URL as the target of a webhook; null when nothing is.
 *
 * @param url an http or https URL
 * @param local plain http and targets inside of one's own network are fine
 */
export function targetProblem(url: string, local: boolean): string | null {
  const { protocol, hostname, username, password } = new URL(url);
  if (username !== '' || password !== '') return 'must not hold a user name or a password';
  if (local) return null;
  if (protocol !== 'https:') return 'must be an https URL';
  return leadsInside(hostname) ? 'must not name this machine or a private network' : null;
}

function leadsInside(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  switch (isIP(host)) {
    case 4:
      return INSIDE.check(host, 'ipv4');
    case 6:
      // BlockList knows an IPv4 address in IPv6 notation (::ffff:0:0/96) for what it is.
      return INSIDE.check(host, 'ipv6');
    default:
      return host === 'localhost' || host.endsWith('.localhost');
  }
}
