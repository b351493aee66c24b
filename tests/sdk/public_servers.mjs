// Public MCP servers as package.json pins them, and what is known of each: how it is started, what its import has to say, and two of
// its tools with what they bring back and leave behind. Owns these facts; what is done with them is in mcp_public.test.mjs.

import { readFileSync } from 'node:fs';

const lines = (file) => readFileSync(file, 'utf8').trimEnd().split('\n');
const remembered = (file) => lines(file).map((line) => JSON.parse(line)).find(({ name }) => name === 'Fram').observations;

const SHIP = { name: 'Fram', entityType: 'ship', observations: ['built of oak'] };
const observing = (content) => ({
  args: { observations: [{ entityName: 'Fram', contents: [content] }] },
  data: { results: [{ entityName: 'Fram', addedObservations: [content] }] },
});
// A second run would put its word in twice.
const entering = (word, line) => ({
  args: { path: 'log.txt', edits: [{ oldText: 'end', newText: `${word} end` }] },
  data: new RegExp(`\\+${line}`),
  seen: (at) => lines(at('files/log.txt')),
  is: ['Fram sails.', line],
});
const thinking = (thought, thoughtHistoryLength) => ({
  args: { thought, nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
  data: { thoughtNumber: 1, totalThoughts: 1, nextThoughtNeeded: false, branches: [], thoughtHistoryLength },
});

/**
 * Of each server: what stands `behind` its package in the command, the `variable` with the file or folder that it names, and `files`
 * that lie in the project beforehand; `version` where each request names the protocol's, as in the revision without sessions; how
 * many `tools` the import writes, which of them are `silent`, running without asking, and what the import `says`; and tools that a
 * person has `reviewed` and found to read only. `reads` and `writes` are calls by text and by voice: their `args`, the `data` of
 * their results, and what is then `seen` in the world, with what it `is`.
 */
export const SERVERS = [
  {
    package: '@modelcontextprotocol/server-everything',
    name: 'everything',
    tools: 13,
    silent: [
      'echo',
      'get_annotated_message',
      'get_env',
      'get_resource_links',
      'get_resource_reference',
      'get_structured_content',
      'get_sum',
      'get_tiny_image',
      'mcp_resource',
      'trigger_long_running_operation',
    ],
    says: [
      /^note: other names here: .*get-sum is get_sum/,
      /^left out: simulate-research-query: .*taskSupport/,
      /^12 tools and mcp_resource from MCP server everything; 1 tool left out/,
    ],
    reads: {
      tool: 'get_structured_content',
      text: { args: { location: 'Chicago' }, data: { conditions: 'Light rain / drizzle', humidity: 82, temperature: 36 } },
      voice: { args: { location: 'New York' }, data: { conditions: 'Cloudy', humidity: 82, temperature: 33 } },
    },
    // A switch: a second run would turn it back.
    writes: {
      tool: 'toggle_simulated_logging',
      text: { args: {}, data: /^Started simulated/ },
      voice: { args: {}, data: /^Stopped simulated/ },
    },
  },
  {
    package: '@modelcontextprotocol/server-filesystem',
    name: 'filesystem',
    behind: ['files'],
    files: { 'files/log.txt': 'Fram sails.\nend\n' },
    tools: 14,
    silent: [
      'directory_tree',
      'get_file_info',
      'list_allowed_directories',
      'list_directory',
      'list_directory_with_sizes',
      'read_file',
      'read_media_file',
      'read_multiple_files',
      'read_text_file',
      'search_files',
    ],
    says: [/^note: tools that run without asking: read_file, .*change nothing/],
    reads: {
      tool: 'read_text_file',
      text: { args: { path: 'log.txt' }, data: { content: 'Fram sails.\nend\n' } },
      voice: { args: { path: 'log.txt', head: 1 }, data: { content: 'Fram sails.' } },
    },
    writes: { tool: 'edit_file', text: entering('typed', 'typed end'), voice: entering('said', 'typed said end') },
  },
  {
    package: '@modelcontextprotocol/server-memory',
    name: 'memory',
    variable: ['MEMORY_FILE_PATH', 'memory.jsonl'],
    files: { 'memory.jsonl': `${JSON.stringify({ type: 'entity', ...SHIP })}\n` },
    tools: 10,
    silent: ['mcp_resource', 'open_nodes', 'read_graph', 'search_nodes'],
    says: [/^wrote tools\/mcp-resource /],
    reads: {
      tool: 'search_nodes',
      text: { args: { query: 'oak' }, data: { entities: [SHIP], relations: [] } },
      voice: { args: { query: 'steel' }, data: { entities: [], relations: [] } },
    },
    writes: {
      tool: 'add_observations',
      text: { ...observing('typed'), seen: (at) => remembered(at('memory.jsonl')), is: ['built of oak', 'typed'] },
      voice: { ...observing('said'), seen: (at) => remembered(at('memory.jsonl')), is: ['built of oak', 'typed', 'said'] },
    },
  },
  {
    package: '@modelcontextprotocol/server-sequential-thinking',
    name: 'sequential-thinking',
    tools: 1,
    silent: ['sequentialthinking'],
    says: [/^note: sequentialthinking: the description is cut/],
    // It has no other tool, and says that this one changes nothing.
    reads: { tool: 'sequentialthinking', text: thinking('Typed.', 1), voice: thinking('Said.', 2) },
  },
  {
    package: '@bitbonsai/mcpvault',
    name: 'mcpvault',
    version: '2026-07-28',
    behind: ['notes'],
    files: { 'notes/fram.md': 'Fram sails.\n' },
    tools: 16,
    silent: [],
    says: [
      /^left out: delete_note: .*confirmPath/,
      /^left out: move_file: .*confirmNewPath/,
      /^note: 16 tools ask before every call; the server gives no hints/,
    ],
    reviewed: ['read_note'],
    reads: {
      tool: 'read_note',
      text: { args: { path: 'fram.md' }, data: { fm: {}, content: 'Fram sails.\n' } },
      voice: { args: { path: 'fram.md', prettyPrint: true }, data: { fm: {}, content: 'Fram sails.\ntyped\n' } },
    },
    writes: {
      tool: 'write_note',
      text: {
        args: { path: 'fram.md', content: 'typed\n', mode: 'append' },
        data: 'Successfully wrote note: fram.md (mode: append)',
        seen: (at) => lines(at('notes/fram.md')),
        is: ['Fram sails.', 'typed'],
      },
      voice: {
        args: { path: 'fram.md', content: 'said\n', mode: 'append' },
        data: 'Successfully wrote note: fram.md (mode: append)',
        seen: (at) => lines(at('notes/fram.md')),
        is: ['Fram sails.', 'typed', 'said'],
      },
    },
  },
  {
    package: '@allpepper/memory-bank-mcp',
    name: 'memory-bank',
    variable: ['MEMORY_BANK_ROOT', 'bank'],
    files: { 'bank/fram/log.md': 'Fram sails.\n' },
    tools: 5,
    silent: [],
    says: [/^note: 5 tools ask before every call; the server gives no hints/],
    reviewed: ['memory_bank_read'],
    reads: {
      tool: 'memory_bank_read',
      text: { args: { projectName: 'fram', fileName: 'log.md' }, data: 'Fram sails.\n' },
      voice: { args: { projectName: 'fram', fileName: 'typed.md' }, data: 'typed\n' },
    },
    writes: {
      tool: 'memory_bank_write',
      text: {
        args: { projectName: 'fram', fileName: 'typed.md', content: 'typed\n' },
        data: 'File typed.md written successfully to project fram',
        seen: (at) => lines(at('bank/fram/typed.md')),
        is: ['typed'],
      },
      voice: {
        args: { projectName: 'fram', fileName: 'said.md', content: 'said\n' },
        data: 'File said.md written successfully to project fram',
        seen: (at) => lines(at('bank/fram/said.md')),
        is: ['said'],
      },
    },
  },
];
