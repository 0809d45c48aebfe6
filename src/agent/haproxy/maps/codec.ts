import { type RouteModuleName, routeModuleNames } from '../../../distribution/route_modules.ts'
import { idLength } from '../../../kernel/ids.ts'

/** The record cannot be turned into entries. The previous one stays in force, and the refusal is reported. */
export class UnusableRecord extends Error {}

/** Values of parts separated by `|`. The agent writes and reads them by name; HAProxy's rules use positions. */
export function delimited<const Name extends string>(...names: readonly Name[]) {
  return {
    /** Optional parts must be at the end. */
    format: (parts: Partial<Record<Name, string | number>>): string =>
      names.flatMap((name) => parts[name] ?? []).join('|'),
    parse(value: string): Partial<Record<Name, string>> {
      const parts = value.split('|')
      return Object.fromEntries(names.map((name, index) => [name, parts[index]])) as Partial<Record<Name, string>>
    },
    /** HAProxy's converter that extracts one part. */
    field: (name: Name): string => `field(${names.indexOf(name) + 1},|)`,
  }
}

/** A backend with one address. With several addresses or a check, it becomes native servers instead (native/). */
export const backendValue = delimited('protocol', 'address', 'port', 'host', 'proxy', 'check')
/** In milliseconds, as HAProxy takes them. */
export const timeoutsValue = delimited('connect', 'response', 'idle', 'tunnel')

/** Marks a route that changes headers; see header_lists.ts. */
export const withHeaders = 'h'
/** Marks a route that has the module. The settings are in the map of the same name. */
export const withModule = 'm'

/**
 * The parts of a TCP edge's or route's value, in order, with their lengths. All but the last have a fixed length, so
 * that HAProxy extracts them without searching.
 */
const targetParts = {
  target: { edgtcp: idLength('edgtcp'), edghtsrt: idLength('edghtsrt') },
  account: idLength('ac'),
  backend: idLength('bkdst'),
  slashes: 1,
  websocket: 1,
  depth: 4,
  variants: 1,
  ...(Object.fromEntries(routeModuleNames.map((name) => [name, withModule.length])) as Record<RouteModuleName, number>),
  response: 1,
  timeouts: 1,
  headers: 1,
  policies: undefined,
}
export type TargetPart = keyof typeof targetParts
export type TargetKind = 'edgtcp' | 'edghtsrt'
type FixedPart = Exclude<TargetPart, 'target' | 'policies'>

export const targetPartNames = Object.keys(targetParts) as TargetPart[]

/** A missing part is filled with dashes to its length. */
export const targetValue = (
  parts: { target: string; account: string; policies: string } & Partial<Record<FixedPart, string>>,
): string => targetPartNames.map((name) => parts[name] ?? '-'.repeat(targetParts[name as FixedPart])).join('|')

/** `length` is undefined for the last part, which extends to the end. */
export function placeOf(part: TargetPart, kind: TargetKind): { from: number; length: number | undefined } {
  const lengthOf = (name: TargetPart) => (name === 'target' ? targetParts.target[kind] : targetParts[name])
  const before = targetPartNames.slice(0, targetPartNames.indexOf(part))
  return { from: before.reduce((from, name) => from + (lengthOf(name) ?? 0) + 1, 0), length: lengthOf(part) }
}

/**
 * The first module part. From here on, a route has only dashes if it has no modules and no timeouts of its own, and
 * `open` if it has no policies.
 */
export const firstModule = routeModuleNames[0] as RouteModuleName
export const noSettings = routeModuleNames.map(() => '-').join('|')
export const onlyPolicies = `${noSettings}|-|-|-|`
export const noModules = `${onlyPolicies}open`
export const onlyResponseHeaders = `${noSettings}|${withHeaders}|-|-|open`
/** The parts from `rewrite` to `headers` of a route that does not change requests for its upstream. */
export const unchanged = '-|-|-|-'

/** Maximum digits of a depth; see `depth` in entries.ts. */
export const depthDigits = targetParts.depth

export function readPart(value: string, part: 'account' | 'backend', kind: TargetKind): string {
  const { from, length = 0 } = placeOf(part, kind)
  return value.slice(from, from + length)
}
