import { useState } from 'react'
import { Problem } from '../api/problem.ts'
import { LockoutNote } from '../lockout.tsx'
import { NodeBars } from '../shell/node_bars.tsx'
import { Avatar } from '../ui/avatar.tsx'
import { Badge } from '../ui/badge.tsx'
import { Button } from '../ui/button.tsx'
import { Choice } from '../ui/choice.tsx'
import { Confirm } from '../ui/confirm.tsx'
import { CopyId } from '../ui/copy_id.tsx'
import { Field } from '../ui/field.tsx'
import { Skeleton } from '../ui/loading.tsx'
import { PageHeader } from '../ui/page_header.tsx'
import { ProblemNote } from '../ui/problem.tsx'
import { Section } from '../ui/section.tsx'
import { SidePanel } from '../ui/side_panel.tsx'
import { State } from '../ui/state.tsx'
import { Empty } from '../ui/states.tsx'
import { Switch } from '../ui/switch.tsx'
import { Tabs } from '../ui/tabs.tsx'
import { Toast } from '../ui/toast.tsx'
import { Foundation } from './components/foundation.tsx'
import { LongTable, rows } from './components/table.tsx'
import '../styles/components.css'
import { UnusualNote } from '../unusual.tsx'

/** Every component in its states, for developers: only development builds have this page. */
export function Components() {
  return (
    <>
      <PageHeader
        title="Components"
        parent={{ to: '/', name: 'Overview' }}
        status={<Badge tone="neutral">Development</Badge>}
        meta={<CopyId id="ipp_01m7f4phe1e00azccrbg7ppm44" />}
        summary="Every component in its states."
      >
        <Button kind="primary" icon="plus">
          Primary action
        </Button>
      </PageHeader>
      <Tabs
        label="Components"
        tabs={[
          { id: 'all', title: 'Components', children: <All /> },
          { id: 'table', title: 'Table', count: rows.length, children: <LongTable /> },
        ]}
      />
    </>
  )
}

/** In the order of the design. */
const All = () => (
  <div className="cols">
    <Foundation />
    <Controls />
    <Messages />
    <States />
  </div>
)

function Controls() {
  const [text, setText] = useState('203.0.113.7/24')
  const [isOn, setOn] = useState(true)
  const [open, setOpen] = useState<'confirm' | 'panel'>()
  const close = () => setOpen(undefined)
  return (
    <>
      <Section title="Buttons">
        <div className="actions start">
          <Button kind="primary">Save changes</Button>
          <Button>Review impact</Button>
          <Button kind="quiet">Discard</Button>
          <Button kind="danger" onPress={() => setOpen('confirm')}>
            Delete policy
          </Button>
          <Button isDisabled>Add rule</Button>
          <Button onPress={() => setOpen('panel')}>Open panel</Button>
        </div>
      </Section>
      <Section title="Verdicts and health">
        <div className="actions start">
          <Badge tone="allowed">Allowed</Badge>
          <Badge tone="refused">Refused</Badge>
          <Badge tone="warned">Warns only</Badge>
          <Badge tone="neutral">Open</Badge>
          <span className="tag">Tag</span>
          <State health="up">Live</State>
          <State health="partial">2 of 3 up</State>
          <State health="down">Down</State>
          <State health="unknown">No check</State>
          <NodeBars current={2} behind={1} offline={1} />
          <Avatar name="Ada" />
          <Avatar name="terraform" kind="bot" />
        </div>
      </Section>
      <Section title="Fields">
        <Field label="Range" mono value={text} onChange={setText} error="This is not the first address of the range." />
        <Choice label="Action" value="allow" onChange={() => {}} options={[{ value: 'allow', label: 'Allow' }]} />
        <Switch isSelected={isOn} onChange={setOn}>
          Enforce
        </Switch>
      </Section>
      {open === 'confirm' && (
        <Confirm
          title="Delete Storefront?"
          typeToConfirm="Storefront"
          action="Delete edge"
          act={async () => {}}
          onDone={close}
          onClose={close}
        >
          <p>5 routes stop working immediately.</p>
        </Confirm>
      )}
      {open === 'panel' && (
        <SidePanel title="198.51.100.77" onClose={close} footer={<Button kind="primary">Allow this address…</Button>}>
          <p>Details of a row beside its table.</p>
        </SidePanel>
      )}
    </>
  )
}

const lockout = new Problem({
  status: 422,
  code: 'ERR_SELF_LOCKOUT',
  message: '',
  hint: '',
  details: { source_ip: '203.0.113.24', operation_id: 'op_01m7f4q2ze00b8t6' },
})
const unusual = new Problem({
  status: 409,
  code: 'ERR_UNUSUAL_CHANGE',
  message: '',
  hint: '',
  details: { before: '1240', after: '12', removed: '1230', added: '2', operation_id: 'op_01m7f4q2ze00b8t6' },
})
const nothing = () => {}

function Messages() {
  return (
    <>
      <Section title="Toasts">
        <div className="frame toasts">
          <Toast tone="warned" icon="rotate" title="Saved. Live on 1 of 3 nodes so far…" onDismiss={nothing}>
            <p>
              <NodeBars current={1} behind={2} /> Generation 4,812
            </p>
          </Toast>
          <Toast tone="allowed" icon="allowed" title="Saved. Live on 3 of 3 nodes." onDismiss={nothing}>
            <p>
              <NodeBars current={3} behind={0} /> Generation 4,812
            </p>
          </Toast>
        </div>
      </Section>
      <Section title="Lockout">
        <LockoutNote error={lockout} onAllow={nothing} onInsist={nothing} isPending={false} />
      </Section>
      <Section title="Unusual change">
        <UnusualNote error={unusual} onConfirm={nothing} isPending={false} />
      </Section>
    </>
  )
}

function States() {
  return (
    <>
      <Section title="Empty">
        <div className="frame">
          <Empty title="No rules yet" actions={<Button kind="primary">Add rule</Button>}>
            Without an allow rule this policy refuses every address.
          </Empty>
        </div>
      </Section>
      <Section title="Loading">
        <div className="frame">
          <Skeleton />
        </div>
      </Section>
      <Section title="Error">
        <ProblemNote error={new Error('nothing')} retry={() => {}} />
      </Section>
    </>
  )
}
