import type { SoakRequest } from 'autocannon';
import type { Hello } from './child.ts';
import type { Ledger } from './ledger.ts';
import { placeOf } from './reads.ts';
import { STOCK_FOLDER } from './stock.ts';

/** What one connection is in the middle of; autocannon hands out a new context for each round of requests. */
interface Round {
  mail: string;
  uid: number;
  folder: string;
}

/** Mail to oneself, flags, a folder that comes and goes: every answer goes into the ledger. */
export function writes(hello: Hello, { mail, flags, folders }: Ledger): SoakRequest[] {
  const { m, headers } = placeOf(hello);
  const own = hello.mailboxes[0]?.address ?? '';
  const rounds = new WeakMap<object, Round>();
  const roundOf = (context: object): Round => {
    const known = rounds.get(context);
    if (known !== undefined) return known;
    const made = { mail: '', uid: 0, folder: '' };
    rounds.set(context, made);
    return made;
  };
  return [
    {
      method: 'POST',
      path: `${m}/send`,
      headers,
      setupRequest: (request, context) => {
        const subject = mail.begin();
        roundOf(context).mail = subject;
        const body = JSON.stringify({ to: [own], subject, text: 'x'.repeat(2000) });
        return { ...request, body };
      },
      onResponse: (status, _, context) => {
        if (status === 204) mail.acknowledge(roundOf(context).mail);
      },
    },
    {
      method: 'PATCH',
      headers,
      setupRequest: (request, context) => {
        const { uid, add, remove } = flags.begin();
        roundOf(context).uid = uid;
        const body = JSON.stringify({ addFlags: [add], removeFlags: [remove] });
        return { ...request, path: `${m}/folders/${STOCK_FOLDER}/messages/${uid}`, body };
      },
      onResponse: (status, _, context) => {
        if (status === 200) flags.acknowledge(roundOf(context).uid);
      },
    },
    {
      method: 'POST',
      path: `${m}/folders`,
      headers,
      setupRequest: (request, context) => {
        const name = folders.begin();
        roundOf(context).folder = name;
        return { ...request, body: JSON.stringify({ name }) };
      },
      onResponse: (status, _, context) => {
        if (status === 201) folders.acknowledge(roundOf(context).folder);
      },
    },
    {
      method: 'DELETE',
      headers,
      setupRequest: (request, context) => {
        const { folder } = roundOf(context);
        folders.doubt(folder);
        return { ...request, path: `${m}/folders/${folder}` };
      },
      onResponse: (status, _, context) => {
        if (status === 204) folders.settle(roundOf(context).folder);
      },
    },
  ];
}
