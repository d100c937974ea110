import { MemoryBackend } from '../../../src/service/store/memory-backend.ts';
import { storeContract } from './store-contract.ts';

storeContract(() => new MemoryBackend());
