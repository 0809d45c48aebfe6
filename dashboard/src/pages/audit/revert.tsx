import { useQuery, useQueryClient } from '@tanstack/react-query'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { SentForApproval } from '../../api/problem.ts'
import { ImpactShown } from '../../change_impact.tsx'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Skeleton } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { draftReversal, type Reversal } from '../../undo.tsx'
import { type Names, useNames } from '../traffic/names.ts'
import { subjectOf } from './describe.ts'
import { Diff } from './diff.tsx'

type Props = { title: string; reversal: Reversal; note?: string; onClose: () => void }

/** Previews reverting one change, or shows the obstacles. Later changes stay. */
export function Revert({ title, reversal, note = 'Only this change is taken back. Later ones stay.', onClose }: Props) {
  const draft = useQuery({
    queryKey: ['revert', reversal.id],
    retry: false,
    gcTime: 0,
    // Every fetch creates a draft, and many actions on a page refresh all queries.
    staleTime: 'static',
    queryFn: async ({ signal }) => {
      const { id, state } = await draftReversal(reversal)
      const of = { params: { path: { id } }, body: {} }
      const preview = await answerOf(api.POST('/change_sets/{id}/preview', of))
      // The dialog was closed before the preview arrived.
      if (signal.aborted) await api.DELETE('/change_sets/{id}', { params: of.params })
      return { id, isWaiting: state === 'waiting', preview }
    },
  })
  const client = useQueryClient()
  const { id = '', isWaiting, preview } = draft.data ?? {}
  const of = { params: { path: { id } } }
  return (
    <FormDialog
      title={title}
      wide
      tall
      action={isWaiting ? 'Send for approval' : 'Revert change'}
      cancel={draft.isError ? 'Close' : 'Cancel'}
      isWaiting={draft.isPending}
      isReady={!draft.isError}
      save={async () => {
        if (isWaiting) throw new SentForApproval(id)
        await answerOf(api.POST('/change_sets/{id}/apply', { ...of, body: {} }))
      }}
      onSaved={async () => {
        await client.invalidateQueries()
        onClose()
      }}
      onClose={(isSent) => {
        // The draft existed only for the preview.
        if (!isSent && draft.data) api.DELETE('/change_sets/{id}', of).catch(() => {})
        onClose()
      }}
      extra={
        draft.data && (
          <Button kind="quiet" onPress={onClose}>
            Keep as a draft
          </Button>
        )
      }
    >
      <p className="soft">{note}</p>
      {draft.isPending && <Skeleton lines={4} />}
      {draft.isError && <ProblemNote error={draft.error} />}
      {preview && <Preview preview={preview} />}
    </FormDialog>
  )
}

/** The event of a module contains only the module. */
const fateOf = (before: object | null, after: object | null): string => {
  const whole = before ?? after ?? {}
  if ((before && after) || !('id' in whole)) return 'changes'
  return before ? 'is deleted' : 'is created'
}

type Difference = Shapes['ChangeSetPreview']['differences'][number]

/** The event of a module does not name its route. */
function nameOf({ resource, before, after }: Pick<Difference, 'resource' | 'before' | 'after'>, names: Names): string {
  const own = subjectOf({ before, after, resource_id: resource })
  return own === resource ? (names.route(resource) ?? names.edge(resource)) : own
}

const count = new Intl.NumberFormat('en')
const some = (number: number, one: string, many: string): string =>
  `${count.format(number)} ${number === 1 ? one : many}`

/** The key figures in one line. */
function Figures({ preview: { impact, failed_access_tests } }: { preview: Shapes['ChangeSetPreview'] }) {
  const { newly_refused: refused, newly_allowed: allowed, unknown } = impact
  const failed = failed_access_tests.length
  const figures = [
    {
      tone: 'refused',
      icon: 'refused',
      number: refused,
      text: some(refused, 'address would be refused', 'addresses would be refused'),
    },
    {
      tone: 'allowed',
      icon: 'allowed',
      number: allowed,
      text: some(allowed, 'address newly allowed', 'addresses newly allowed'),
    },
    {
      tone: 'warned',
      icon: 'unknown',
      number: unknown,
      text: some(unknown, 'place where the effect is unknown', 'places where the effect is unknown'),
    },
    {
      tone: 'refused',
      icon: 'warned',
      number: failed,
      text: some(failed, 'access test would fail', 'access tests would fail'),
    },
  ] as const
  return (
    <ul className="draft-figures" aria-label="Effect">
      {figures
        .filter(({ number }) => number > 0)
        .map(({ tone, icon, text }) => (
          <li key={text} className={tone}>
            <Icon name={icon} />
            {text}
          </li>
        ))}
    </ul>
  )
}

/** The differences, the addresses that they affect, and the tests that would fail. */
export function Preview({ preview }: { preview: Shapes['ChangeSetPreview'] }) {
  const { differences, impact, failed_access_tests, conflicts } = preview
  const names = useNames()
  return (
    <>
      <Figures preview={preview} />
      <ul className="plain-list" aria-label="Differences">
        {differences.map(({ resource, before, after }, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: several changes can be about one resource
          <li key={`${resource} ${index}`}>
            <p>
              <strong>{nameOf({ resource, before, after }, names)}</strong>{' '}
              <span className="soft">{fateOf(before, after)}</span>
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
