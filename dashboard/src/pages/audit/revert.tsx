import { useQuery, useQueryClient } from '@tanstack/react-query'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { SentForApproval } from '../../api/problem.ts'
import { ImpactShown } from '../../change_impact.tsx'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Skeleton } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { draftReversal, type Reversal } from '../../undo.tsx'
import { Diff } from './diff.tsx'

type Props = { title: string; reversal: Reversal; note?: string; onClose: () => void }

/** What taking one change back would do, or what is in the way. Later changes stay. */
export function Revert({ title, reversal, note = 'Only this change is taken back. Later ones stay.', onClose }: Props) {
  const draft = useQuery({
    queryKey: ['revert', reversal.id],
    retry: false,
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => {
      const { id, state } = await draftReversal(reversal)
      const of = { params: { path: { id } }, body: {} }
      return { id, isWaiting: state === 'waiting', preview: await answerOf(api.POST('/change_sets/{id}/preview', of)) }
    },
  })
  if (draft.data) return <Apply title={title} note={note} {...draft.data} onClose={onClose} />
  return (
    <Dialog title={title} onClose={onClose} wide>
      {draft.isError ? <ProblemNote error={draft.error} /> : <Skeleton lines={4} />}
      <div className="actions">
        <Button onPress={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

type ApplyProps = {
  title: string
  note: string
  id: string
  isWaiting: boolean
  preview: Shapes['ChangeSetPreview']
  onClose: () => void
}

function Apply({ title, note, id, isWaiting, preview, onClose }: ApplyProps) {
  const client = useQueryClient()
  const of = { params: { path: { id } } }
  return (
    <FormDialog
      title={title}
      wide
      action={isWaiting ? 'Send for approval' : 'Revert change'}
      save={async () => {
        if (isWaiting) throw new SentForApproval(id)
        await answerOf(api.POST('/change_sets/{id}/apply', { ...of, body: {} }))
      }}
      onSaved={async () => {
        await client.invalidateQueries()
        onClose()
      }}
      onClose={(isSent) => {
        if (isSent) return onClose()
        // The draft was only made to be looked at.
        api.DELETE('/change_sets/{id}', of).catch(() => {})
        onClose()
      }}
      extra={
        <Button kind="quiet" onPress={onClose}>
          Keep as a draft
        </Button>
      }
    >
      <p className="soft">{note}</p>
      <Preview preview={preview} />
    </FormDialog>
  )
}

/** The event of a module has nothing but the module. */
const fateOf = (before: object | null, after: object | null): string => {
  const whole = before ?? after ?? {}
  if ((before && after) || !('id' in whole)) return 'changes'
  return before ? 'is deleted' : 'is created'
}

/** The differences, the addresses that they affect, and the tests that would fail. */
export function Preview({ preview }: { preview: Shapes['ChangeSetPreview'] }) {
  const { differences, impact, failed_access_tests, conflicts } = preview
  return (
    <>
      <ul className="plain-list" aria-label="Differences">
        {differences.map(({ resource, before, after }) => (
          <li key={resource}>
            <p>
              <span className="mono">{resource}</span> <span className="soft">{fateOf(before, after)}</span>
            </p>
            <Diff event={{ before, after }} />
          </li>
        ))}
      </ul>
      {conflicts.length > 0 && (
        <p className="note warned with-icon">
          <Icon name="warned" />
          <span>
            Changed since the draft was made: <span className="mono">{conflicts.join(', ')}</span>
          </span>
        </p>
      )}
      {failed_access_tests.map((failed) => (
        <p className="note warned with-icon" key={failed.id}>
          <Icon name="warned" />
          <span>
            Access test “{failed.description ?? failed.id}” would fail: {failed.address} would be {failed.outcome}.{' '}
            {failed.reason}
          </span>
        </p>
      ))}
      <section className="impact" aria-label="Impact">
        <h3>Impact</h3>
        <ImpactShown impact={impact} />
      </section>
    </>
  )
}
