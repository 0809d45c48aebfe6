import { hash } from 'node:crypto'
import type { MutualTlsRecord } from '../../../distribution/records.ts'
import { parseHostport } from '../../../kernel/edge/hostport.ts'
import { mutualTlsModes } from '../../../kernel/edge/mutual_tls.ts'
import { parseAddress } from '../../../kernel/ip/address.ts'
import { delimited, UnusableRecord } from './codec.ts'

/**
 * Precedes the id of an edge that asks for client certificates. No route is found under such an id, so rules that do not
 * know the mark serve nothing. It sorts before any id, so it holds a name that the edge also claims without it.
 */
export const asksForCertificate = '+'

/** `settings` changes whenever the mode or the authorities change. */
export const mutualTlsValue = delimited('mode', 'settings', 'account')
export const mutualTlsDigest = ({ mode, authorities }: Pick<MutualTlsRecord, 'mode' | 'authorities'>): string =>
  digestOfAuthorities(mode, authorities.join(''))
export const digestOfAuthorities = (mode: string, pem: string): string =>
  hash('sha256', `${mode}\n${pem}`, 'hex').slice(0, 40)

/** The caller has validated the id and the account. */
export function mutualTlsEntries(id: string, account: string, record: MutualTlsRecord) {
  const { hostports, mode } = record
  if (!mutualTlsModes.includes(mode)) throw new UnusableRecord(`${JSON.stringify(mode)} is no mode of ${id}`)
  const value = mutualTlsValue.format({ mode, settings: mutualTlsDigest(record), account })
  return [{ map: 'mutual_tls' as const, key: id, value }, ...nameEntries(hostports, `${asksForCertificate}${id}`)]
}

export function nameEntries(hostports: readonly string[], value: string) {
  return hostports.map((text) => {
    const { host } = hostportOf(text, true)
    if (parseAddress(host.replaceAll(/[[\]]/g, ''))) throw new UnusableRecord(`${text} is an address, not a name`)
    return host.startsWith('*.')
      ? { map: 'wildcard' as const, key: wildcardKey(host), value }
      : { map: 'host' as const, key: host, value }
  })
}

/** HAProxy finds the longest prefix of a reversed name. */
export const wildcardKey = (host: string): string => [...host.slice(1)].reverse().join('')

export function hostportOf(text: string, wildcard: boolean) {
  const parsed = parseHostport(text, { wildcard })
  if (typeof parsed === 'string') throw new UnusableRecord(`${JSON.stringify(text)} ${parsed}`)
  return parsed
}
