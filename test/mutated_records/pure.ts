import { type Entry, mapNames, partNames } from '../../src/agent/haproxy/maps/entries.ts'
import { plan, valueFor } from '../../src/agent/plan.ts'
import { type BackendRecord, type EdgeRecord, isPolicyRecord, kindOf } from '../../src/distribution/records.ts'
import { createSigner, newSigningKey, openRecord, seal, trustedKeys } from '../../src/distribution/signature.ts'
import { parseAddress } from '../../src/kernel/ip/address.ts'
import { seededRandom } from '../deciders/cases.ts'
import { isSound, type Mutation, mutated, pathsIn, someMutations } from './mutations.ts'
import { type Sample, samplesOf } from './samples.ts'

const { publicKey, privateKey } = newSigningKey()
export const signer = createSigner(publicKey, privateKey)
export const keys = trustedKeys([publicKey])

/** Signed as a control plane with a defect would: what is wrong with how the agent takes it, or undefined. */
export function faultOf(sample: Sample, mutations: readonly Mutation[]): { refused: boolean; fault?: string } {
  try {
    const record = openRecord(seal(mutated(sample, mutations) as object, signer), keys, sample.key)
    if ('fault' in record) {
      const { fault, signed } = record
      if (fault.length < 5 || fault.length > 200) return { refused: true, fault: `is refused for ${fault}` }
      if (signed && signed.generation < 1) return { refused: true, fault: `is refused as of ${signed.generation}` }
      return { refused: true }
    }
    if (!mutations.every((each) => isSound(sample, each))) return { refused: false, fault: 'is accepted' }
    const { changes, refused } = plan([{ record, value: preparedOf(record) }], new Map(), () => [])
    const unclear = changes.flatMap(({ after }) => after).find((entry) => !isOneLine(entry))
    if (unclear) return { refused: false, fault: `becomes ${JSON.stringify(unclear)}` }
    return { refused: refused.length > 0 }
  } catch (error) {
    return { refused: false, fault: `throws ${(error as Error).stack}` }
  }
}

/** As preparation.ts does it, without files and DNS. */
function preparedOf({ key, value, rules }: EdgeRecord): unknown {
  if (value === null) return null
  if (kindOf(key) !== 'backend') return valueFor(key, value, isPolicyRecord(rules) ? rules : undefined)
  const backend = value as BackendRecord
  const host = backend.host.replaceAll(/[[\]]/g, '')
  return { ...backend, host, address: parseAddress(host) ? host : '192.0.2.7' }
}

const knownMaps: ReadonlySet<string> = new Set([...mapNames, ...partNames])
const isOneLine = ({ map, key, value }: Entry): boolean =>
  knownMaps.has(map) && /^[\x21-\x7e]+$/.test(key) && /^[\x20-\x7e]+$/.test(value) && !/[\\;"]/.test(value)

export type Result = { records: number; refused: number; faults: string[] }

export const titleOf = ({ key }: Sample, mutations: readonly Mutation[]): string =>
  `${key.split('.')[0]} with ${mutations.map(({ path, wrong }) => `${path.join('.') || 'record'} ${wrong}`).join(', ')}`

/** Random ones, from a seed. */
export function checkMutations(count: number, seed: number): Result {
  const random = seededRandom(seed)
  const samples = Object.values(samplesOf(0)).map((sample) => ({ sample, paths: pathsIn(sample) }))
  const result: Result = { records: count, refused: 0, faults: [] }
  for (let at = 0; at < count; at++) {
    const { sample, paths } = samples[random(samples.length)] as (typeof samples)[number]
    const mutations = someMutations(random, paths, sample)
    const { refused, fault } = faultOf(sample, mutations)
    if (refused) result.refused++
    if (fault && result.faults.length < 100) result.faults.push(`${titleOf(sample, mutations)} ${fault}`)
  }
  return result
}
