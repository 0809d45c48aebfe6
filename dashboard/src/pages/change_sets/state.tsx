import { useCallback } from 'react'
import type { Shapes } from '../../api/client.ts'
import { usePeople } from '../../api/people.ts'
import { isDraft } from '../../draft/store.ts'
import { Badge, type Tone } from '../../ui/badge.tsx'
import { titleOfOperations } from './words.ts'

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

export function StateOf({ changeSet }: { changeSet: Pick<ChangeSet, 'state' | 'metadata'> }) {
  // A draft waits for no one while its author adds to it.
  const { tone, text } = states[isDraft(changeSet) && isOpen(changeSet) ? 'draft' : changeSet.state]
  return <Badge tone={tone}>{text}</Badge>
}

export const isOpen = ({ state }: Pick<ChangeSet, 'state'>): boolean => ['draft', 'waiting', 'approved'].includes(state)

/** Its description, or what it does. */
export const nameOf = ({ description, operations }: ChangeSet): string => description ?? titleOfOperations(operations)

export function useNameOfPerson(): (id: string) => string {
  const people = usePeople()
  return useCallback((id: string) => people?.find((person) => person.id === id)?.name ?? id, [people])
}
