import { Store } from '../../../src/sandbox/store.ts';
import { storeContract } from './store-contract.ts';

storeContract(() => new Store());
