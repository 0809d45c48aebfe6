import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { $api, answerOf, api, tryOut } from './api/client.ts'
import { SentForApproval } from './api/problem.ts'
import { Button } from './ui/button.tsx'
import { ProblemNote } from './ui/problem.tsx'

/** What undoing a change reverts: its audit event, the change set that it applied, or the rollout that contains it. */
export type Reversal = {
  kind: 'event' | 'change_set' | 'rollout'
  id: string
  /** What it reverts has undone something. */
  isRedo?: boolean
}

const draftOf = ({ kind, id }: Reversal, on: typeof api) => {
  const of = { params: { path: { id } }, body: {} }
  if (kind === 'rollout') return answerOf(on.POST('/rollouts/{id}/revert', of))
  return answerOf(kind === 'event' ? on.POST('/audit_events/{id}/revert', of) : on.POST('/change_sets/{id}/revert', of))
}
export const draftReversal = (reversal: Reversal) => draftOf(reversal, api)

/** How to undo what this operation has just done. Undefined while that is not known, and where it cannot be. */
export function useUndo(operationId: string, isWanted: boolean): Reversal | undefined {
  const isAdmin = $api.useQuery('get', '/caller').data?.role === 'admin'
  return (
    useQuery({
      queryKey: ['undo', operationId],
      enabled: isWanted && isAdmin,
      retry: false,
      staleTime: Number.POSITIVE_INFINITY,
      queryFn: async () => {
        const query = { limit: 20 }
        const { audit_events } = await answerOf(api.GET('/audit_events', { params: { query } }))
        const events = audit_events.filter((each) => each.operation_id === operationId)
        const set = events.find(({ operation }) => operation === 'change_sets.apply')
        const first = events.at(-1)
        if (!first) return null
        const isRedo = Boolean((set?.after as { reverts_id?: string | null } | null | undefined)?.reverts_id)
        const reversal: Reversal = set
          ? { kind: 'change_set', id: set.resource_id, isRedo }
          : { kind: 'event', id: first.id }
        // A refusal says that it cannot be undone.
        return await tryOut((on) => draftOf(reversal, on)).then(
          () => reversal,
          () => null,
        )
      },
    }).data ?? undefined
  )
}

/** Undoes at once: it was made a moment ago, by the same person. */
export function Undo({ reversal }: { reversal: Reversal }) {
  const client = useQueryClient()
  const undo = useMutation({
    mutationFn: async () => {
      const { id, state } = await draftReversal(reversal)
      if (state === 'waiting') throw new SentForApproval(id)
      await answerOf(api.POST('/change_sets/{id}/apply', { params: { path: { id } }, body: {} }))
    },
    onSuccess: () => client.invalidateQueries(),
  })
  return (
    <>
      <div className="actions start">
        <Button isPending={undo.isPending} onPress={() => undo.mutate()}>
          {reversal.isRedo ? 'Redo' : 'Undo'}
        </Button>
      </div>
      {undo.isError && <ProblemNote error={undo.error} />}
    </>
  )
}
