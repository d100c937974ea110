import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

/** A certificate that signs itself, with its key: for a server, and for clients that are to trust it. */
export interface Certificate {
  readonly file: string;
  readonly keyFile: string;
  readonly pem: string;
  readonly key: string;
  /** False if it was made for other host names only. */
  readonly isForLoopback: boolean;
}

const LOOPBACK = 'IP:127.0.0.1';

/**
 * Makes a certificate with openssl.
 *
 * @param names what it is valid for: 127.0.0.1 and localhost, unless other host names are given
 */
export function makeCertificate(
  folder: string,
  names: readonly string[] = [LOOPBACK, 'DNS:localhost'],
): Certificate {
  const file = path.join(folder, 'certificate.pem');
  const keyFile = path.join(folder, 'key.pem');
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const subject = ['-subj', '/CN=mailkeep test', '-addext', `subjectAltName=${names.join(',')}`];
  const out = ['-days', '3650', '-keyout', keyFile, '-out', file];
  execFileSync('openssl', ['req', '-x509', ...kind, ...subject, ...out], { stdio: 'pipe' });
  return {
    file,
    keyFile,
    pem: readFileSync(file, 'utf8'),
    key: readFileSync(keyFile, 'utf8'),
    isForLoopback: names.includes(LOOPBACK),
  };
}
