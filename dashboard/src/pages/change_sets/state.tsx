import { useCallback } from 'react'
import type { Shapes } from '../../api/client.ts'
import { usePeople } from '../../api/people.ts'
import { Badge, type Tone } from '../../ui/badge.tsx'

type ChangeSet = Shapes['ChangeSetSummary']

const states: Record<ChangeSet['state'], { tone: Tone; text: string }> = {
  draft: { tone: 'neutral', text: 'Draft' },
  waiting: { tone: 'warned', text: 'Waiting for approval' },
  approved: { tone: 'allowed', text: 'Approved' },
  applied: { tone: 'allowed', text: 'Applied' },
  confirmed: { tone: 'allowed', text: 'Confirmed' },
  reverted: { tone: 'neutral', text: 'Undone' },
  revert_failed: { tone: 'refused', text: 'Not undone' },
  withdrawn: { tone: 'neutral', text: 'Withdrawn' },
}

export function StateOf({ changeSet: { state } }: { changeSet: Pick<ChangeSet, 'state'> }) {
  const { tone, text } = states[state]
  return <Badge tone={tone}>{text}</Badge>
}

export const isOpen = ({ state }: Pick<ChangeSet, 'state'>): boolean => ['draft', 'waiting', 'approved'].includes(state)

/** Its description, or what it does. */
export const nameOf = ({ description, operations }: ChangeSet): string =>
  description ?? [...new Set(operations)].slice(0, 3).join(', ')

export function useNameOfPerson(): (id: string) => string {
  const people = usePeople()
  return useCallback((id: string) => people?.find((person) => person.id === id)?.name ?? id, [people])
}
