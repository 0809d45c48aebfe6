import { type IdPrefix, idPrefixes } from '../../kernel/ids.ts'
import type { Event } from './undo_steps.ts'

const deeds: Readonly<Record<string, string>> = { create: 'creation', delete: 'deletion' }
const nameFields = ['description', 'name', 'cidr', 'match', 'address', 'domain']
/** With the reason for the undo, a title must fit into a description of 255 bytes in any alphabet. */
const maxNameLength = 32

/** 'Undo the deletion of IP policy offices': shown in the list of change sets. */
function titleOfUndo(events: readonly Event[]): string {
  const [first, ...others] = events
  if (!first) return 'Undo'
  const more = others.length === 0 ? '' : `, and ${others.length} other ${others.length === 1 ? 'change' : 'changes'}`
  return `Undo ${whatOf(first)}${more}`
}

/** Title for undoing a change set, which may have a description. */
export const titleOfUndoOf = (description: string | null, events: readonly Event[]): string =>
  description === null ? titleOfUndo(events) : `Undo change set "${cut(description)}"`

function whatOf({ operation, resource_id: id, before, after }: Event): string {
  const parts = operation.split('.')
  const module = parts.length > 2 ? `${(parts[1] ?? '').replaceAll('_', ' ').replace(/^ip /, 'IP ')} of ` : ''
  const noun = idPrefixes[id.slice(0, id.lastIndexOf('_')) as IdPrefix] ?? ''
  return `the ${deeds[parts.at(-1) ?? ''] ?? 'change'} of ${module}${noun} ${nameIn(after) ?? nameIn(before) ?? id}`
}

function nameIn(shown: object | null): string | undefined {
  for (const field of nameFields) {
    const value: unknown = shown && Reflect.get(shown, field)
    if (typeof value === 'string' && value !== '') return cut(value)
  }
  const hostports: unknown = shown && Reflect.get(shown, 'hostports')
  return Array.isArray(hostports) && hostports.length > 0 ? cut(hostports.join(', ')) : undefined
}

const cut = (name: string): string =>
  name.length > maxNameLength ? `${name.slice(0, maxNameLength - 1).toWellFormed()}…` : name
