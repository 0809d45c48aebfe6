import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Revert } from '../audit/revert.tsx'
import { type Details, type State, useNames, withNames, wordOf } from './words.tsx'

type Verb = 'halt' | 'resume' | 'release'
type Props = { rollout: Details; etag: string; isAdmin: boolean }
/** What the dialog showed when it opened. */
type Opened = { verb: Verb; etag: string; state: State; reason: string | null }

/** Actions that are possible now. The page shows the rest elsewhere. */
export function Actions({ rollout, etag, isAdmin }: Props) {
  const [opened, setOpened] = useState<Opened>()
  const [isReverting, setReverting] = useState(false)
  const { id, state, reason, change_count } = rollout
  const open = (verb: Verb) => setOpened({ verb, etag, state, reason })
  const isRunning = state === 'watching' || state === 'releasing'
  return (
    <>
      {isAdmin && (state === 'watching' || state === 'halted') && (
        <Button onPress={() => open('release')}>{state === 'halted' ? 'Release anyway…' : 'Release now…'}</Button>
      )}
      {state === 'halted' && <Button onPress={() => open('resume')}>Resume…</Button>}
      {isRunning && (
        <Button kind="primary" icon="halt" onPress={() => open('halt')}>
          Halt…
        </Button>
      )}
      {(state === 'halted' || state === 'released') && change_count > 0 && (
        <Button kind={state === 'halted' ? 'primary' : 'plain'} onPress={() => setReverting(true)}>
          Revert changes…
        </Button>
      )}
      {opened && <Decision opened={opened} rollout={rollout} onClose={() => setOpened(undefined)} />}
      {isReverting && (
        <Revert
          title={change_count === 1 ? 'Revert the change of this rollout?' : 'Revert all changes of this rollout?'}
          reversal={{ kind: 'rollout', id }}
          note={
            state === 'halted'
              ? 'Everything in this rollout is taken back. Then resume the rollout: until then, what this account changes waits in it.'
              : 'Everything in this rollout is taken back. Later changes stay. This is a change like any other, and is watched too.'
          }
          onClose={() => setReverting(false)}
        />
      )}
    </>
  )
}

const words: Record<Verb, { title: string; action: string; what: (rollout: Details) => ReactNode }> = {
  halt: {
    title: 'Halt this rollout?',
    action: 'Halt',
    what: ({ cell }) => (
      <>
        Nodes that have the changes get back what they had before, and no other node gets them. The changes stay stored.
        What this account changes in {cell} afterwards waits until you resume or release the rollout.
      </>
    ),
  },
  resume: {
    title: 'Resume this rollout?',
    action: 'Resume',
    what: () => (
      <>
        The nodes of wave 0 get what is stored now, and are watched again. What halted it halts it again if it is still
        there.
      </>
    ),
  },
  release: {
    title: 'Release this rollout to all nodes?',
    action: 'Release to all nodes',
    what: ({ nodes, cell }) => (
      <>
        All {nodes.length} nodes of {cell} get what is stored now, without a watch. Nothing halts it any more, and a
        change that is wrong is wrong everywhere.
      </>
    ),
  },
}

function Decision({ opened, rollout, onClose }: { opened: Opened; rollout: Details; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const client = useQueryClient()
  const nameOf = useNames()
  const { verb, etag, state } = opened
  const { title, action, what } = words[verb]
  const hasChanged = rollout.state !== state || rollout.reason !== opened.reason
  const params = { path: { id: rollout.id }, header: { 'If-Match': etag } }
  const body = { reason: reason.trim() }
  const refresh = () => client.invalidateQueries()
  return (
    <FormDialog
      title={title}
      action={action}
      kind={verb === 'release' ? 'danger' : 'primary'}
      isDirty={reason !== ''}
      isReady={reason.trim() !== '' && !hasChanged}
      save={async () => {
        try {
          if (verb === 'halt') await answerOf(api.POST('/rollouts/{id}/halt', { params, body }))
          else if (verb === 'resume') await answerOf(api.POST('/rollouts/{id}/resume', { params, body }))
          else await answerOf(api.POST('/rollouts/{id}/release', { params, body }))
        } finally {
          // Even after a refusal, because someone else may have decided meanwhile.
          void refresh()
        }
      }}
      onSaved={onClose}
      onClose={onClose}
    >
      {hasChanged && (
        <p className="note warned with-icon" role="alert">
          <Icon name="warned" />
          <span>
            The rollout has changed since you opened this: it is {wordOf(rollout.state).toLowerCase()} now
            {rollout.reason && `, with the reason “${rollout.reason}”`}. Close this and look again.
          </span>
        </p>
      )}
      <p>{what(rollout)}</p>
      {verb !== 'halt' && rollout.evidence.length > 0 && (
        <ul className="plain-list" aria-label="What halted it">
          {rollout.evidence.slice(0, 3).map(({ sentence }) => (
            <li key={sentence}>{withNames(sentence, nameOf)}</li>
          ))}
        </ul>
      )}
      <Field
        label="Reason"
        name="reason"
        autoFocus
        value={reason}
        onChange={setReason}
        hint="Others read it here and in the audit log."
      />
    </FormDialog>
  )
}
