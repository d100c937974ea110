import type { FleetLinkFacts } from '../errors/fleet-links.ts';
import { reasonText, type Sentences, say } from './sentence.ts';

export const FLEET_LINK_SENTENCES: Sentences<FleetLinkFacts> = {
  'fleet-cannot-listen': ({ host, port, reason }) =>
    say(
      `The worker cannot listen on ${host}:${port}: ${reason === 'EADDRINUSE' ? 'the port is taken (EADDRINUSE)' : reasonText(reason)}.`,
      'Set fleet.address to where other nodes reach this one, and fleet.listen if it listens elsewhere, such as behind a translation of addresses.',
    ),
  'fleet-node-unreachable': ({ node, address, reason }) =>
    reason === 'no address'
      ? say(
          `The node ${node} holds the account, and its configuration names no address.`,
          'Set fleet.address there, and start its worker again.',
        )
      : say(
          `The node ${node} holds the account and does not answer at ${address} (${reason}).`,
          'If it is gone, another node takes the account within a minute: try again. Otherwise check fleet.address there, and the firewall.',
        ),
  'fleet-link-refused': ({ node, address }) =>
    say(
      `What listens at ${address} has none of the keys of this node, and should be the node ${node}.`,
      'Compare the files of keys (fleet.keyFile) of both nodes.',
    ),
  'fleet-no-reader': ({ account, full }) =>
    full
      ? say(
          `Nobody holds the account ${account}, and no worker has room for it.`,
          'Raise fleet.capacity, or start another worker.',
        )
      : say(
          `Nobody holds the account ${account}, and no worker is running that could take it.`,
          'Start one with "mailkeep fleet worker"; it needs fleet.address.',
        ),
  'fleet-reading-moved': ({ account }) =>
    say(`The account ${account} went from node to node while it was looked for.`, 'Try again.'),
  'fleet-reading-unready': ({ node, account, code }) =>
    say(
      `The node ${node} holds the account ${account} and cannot open it (${code}).`,
      'The log of its worker has the reason.',
    ),
  'fleet-reading-busy': ({ node }) =>
    say(`Too many read at the node ${node} at the moment.`, 'Try again.'),
  'fleet-answer-cut': ({ node }) =>
    say(
      `The answer of the node ${node} ended too early: what was printed is not complete.`,
      'Try again: if the node is gone, another one takes the account within a minute.',
    ),
  'fleet-export-cut': ({ node }) =>
    say(
      `The export is not complete: the node ${node} stopped answering, and no other one continued.`,
      'Run the same command again. Folders of .eml files and Maildirs continue where they ended.',
    ),
  'fleet-export-unanswered': ({ node, reason }) =>
    say(
      `The export is not complete: the node ${node}, which holds the account, gave no usable answer (${reason}).`,
      'All nodes should run the same version of mailkeep. The log of its worker may say more.',
    ),
  'fleet-reading-refused': ({ what }) =>
    say(`${what} cannot be used with --account.`, 'It works on the archive of this machine only.'),
};
