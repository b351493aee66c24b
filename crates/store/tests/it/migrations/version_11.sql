-- A file of schema version 11, with rows of every kind, as version 11 wrote them.
PRAGMA application_id = 0x574E444C;
PRAGMA journal_mode = WAL;

CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE blocks (
        tenant TEXT NOT NULL,
        user_id TEXT NOT NULL,
        until_unix_ms INTEGER NOT NULL,
        farewell_message TEXT NOT NULL,
        PRIMARY KEY (tenant, user_id)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE conversations (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        user_id TEXT NOT NULL,
        has_external_content INTEGER NOT NULL,
        last_entry INTEGER NOT NULL,
        first_entry INTEGER NOT NULL,
        last_question INTEGER NOT NULL,
        begun_at_unix_ms INTEGER NOT NULL,
        used_at_unix_ms INTEGER NOT NULL, address BLOB, beginner BLOB, title TEXT, messages INTEGER NOT NULL DEFAULT 0, standing TEXT,
        PRIMARY KEY (tenant, conversation_id)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE legs (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        mode TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        owner TEXT NOT NULL,
        client_id TEXT NOT NULL,
        resume_token BLOB NOT NULL,
        last_number INTEGER NOT NULL,
        expires_at_unix_ms INTEGER NOT NULL, is_announced INTEGER NOT NULL DEFAULT 1,
        PRIMARY KEY (tenant, conversation_id, leg)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE leg_bodies (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (tenant, conversation_id, leg)
    ) STRICT;

CREATE TABLE effects (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        effect_id TEXT NOT NULL,
        key BLOB NOT NULL,
        tool TEXT NOT NULL,
        tool_version TEXT NOT NULL,
        arguments TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'done', 'not_done', 'unknown')),
        attempts TEXT NOT NULL,
        receipt TEXT,
        parent TEXT,
        ordinal INTEGER,
        leg TEXT NOT NULL,
        generation INTEGER NOT NULL,
        onset INTEGER,
        first_entry INTEGER NOT NULL,
        last_entry INTEGER NOT NULL,
        is_heard INTEGER NOT NULL,
        lookup TEXT NOT NULL,
        is_audited INTEGER NOT NULL,
        intent TEXT NOT NULL,
        begun_at_unix_ms INTEGER NOT NULL,
        changed_at_unix_ms INTEGER NOT NULL,
        -- Of the newest attempt; the owner of one that a service has taken on is empty.
        owner TEXT NOT NULL,
        lease_end_unix_ms INTEGER NOT NULL,
        -- When the handler of an unknown effect is to be asked next.
        lookup_at_unix_ms INTEGER, near BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000', key_spec TEXT NOT NULL DEFAULT '{"names":[]}', key_fingerprint INTEGER NOT NULL DEFAULT 0, task TEXT, task_user TEXT, task_is_sent INTEGER,
        PRIMARY KEY (tenant, effect_id, conversation_id)
    ) STRICT;

CREATE TABLE questions (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        key BLOB NOT NULL,
        tool TEXT NOT NULL,
        tool_version TEXT NOT NULL,
        handler_hash TEXT,
        arguments TEXT NOT NULL,
        preview TEXT NOT NULL,
        hazards TEXT NOT NULL,
        mode TEXT NOT NULL,
        user_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        generation INTEGER NOT NULL,
        onset INTEGER,
        call INTEGER NOT NULL,
        nonce BLOB NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'approved', 'denied', 'closed')),
        effect_id TEXT,
        last_entry INTEGER NOT NULL,
        is_heard INTEGER NOT NULL,
        asked_at_unix_ms INTEGER NOT NULL,
        expires_at_unix_ms INTEGER NOT NULL, near BLOB NOT NULL DEFAULT x'0000000000000000000000000000000000000000000000000000000000000000', reason TEXT, because TEXT, clock TEXT, input TEXT,
        PRIMARY KEY (tenant, conversation_id, number)
    ) STRICT;

CREATE TABLE deliveries (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        leg TEXT NOT NULL,
        id TEXT NOT NULL,
        generation INTEGER NOT NULL,
        key BLOB NOT NULL,
        arguments BLOB NOT NULL,
        effect_id TEXT,
        question INTEGER,
        PRIMARY KEY (tenant, conversation_id, leg, id)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE entries (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        at_unix_ms INTEGER NOT NULL,
        leg TEXT,
        leg_number INTEGER,
        key TEXT,
        event TEXT NOT NULL,
        PRIMARY KEY (tenant, conversation_id, number)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE abandoned (
        tenant TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        nonce BLOB NOT NULL,
        at_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, conversation_id, nonce)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE key_specs (
        tool TEXT NOT NULL,
        key_fingerprint INTEGER NOT NULL,
        used_at_unix_ms INTEGER NOT NULL,
        PRIMARY KEY (tool, key_fingerprint)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE parties (
        kind TEXT NOT NULL,
        party BLOB NOT NULL,
        conversations INTEGER NOT NULL,
        PRIMARY KEY (kind, party)
    ) STRICT, WITHOUT ROWID;

CREATE TABLE ended_clients (number INTEGER PRIMARY KEY, client_id TEXT NOT NULL UNIQUE) STRICT;

INSERT INTO meta (name, value) VALUES ('schema',11);
INSERT INTO blocks (tenant, user_id, until_unix_ms, farewell_message) VALUES ('default','mallory',1900000000000,'Bye');
INSERT INTO conversations (tenant, conversation_id, user_id, has_external_content, last_entry, first_entry, last_question, begun_at_unix_ms, used_at_unix_ms, address, beginner, title, messages, standing) VALUES ('default','empty','eve',0,0,1,0,1700000032000,1700000032000,X'1EA1B41272A7AB26F840CA5CBFB001CA',NULL,NULL,0,NULL);
INSERT INTO conversations (tenant, conversation_id, user_id, has_external_content, last_entry, first_entry, last_question, begun_at_unix_ms, used_at_unix_ms, address, beginner, title, messages, standing) VALUES ('default','talk','alice',1,31,1,7,1700000000000,1700000032000,X'29AC5AAB181C905B163D8B37B0D25D52',X'98DD1AC03BCCDBBB7F60141B5E3F4F11','Order tea, "hot".',2,'[{"question":3,"tool":"table_book","tool_version":"1.0.0","handler_hash":null,"values":"{\"/folder\":\"Reports\"}","scope":{"session":"leg"},"given_at_unix_ms":1700000021000,"expires_at_unix_ms":1700000621000}]');
INSERT INTO conversations (tenant, conversation_id, user_id, has_external_content, last_entry, first_entry, last_question, begun_at_unix_ms, used_at_unix_ms, address, beginner, title, messages, standing) VALUES ('other','talk','bob',0,1,1,0,1700000032000,1700000032000,NULL,NULL,'Tea',0,NULL);
INSERT INTO legs (tenant, conversation_id, leg, mode, epoch, owner, client_id, resume_token, last_number, expires_at_unix_ms, is_announced) VALUES ('default','talk','leg','voice',1,'process 1','phone',X'6C65670000000000000000000000000000000000000000000000000000000000',5,1700100032000,1);
INSERT INTO legs (tenant, conversation_id, leg, mode, epoch, owner, client_id, resume_token, last_number, expires_at_unix_ms, is_announced) VALUES ('other','talk','other leg','voice',1,'process 1','phone',X'6F74686572206C65670000000000000000000000000000000000000000000000',0,1700003632000,0);
INSERT INTO leg_bodies (tenant, conversation_id, leg, body) VALUES ('default','talk','leg',X'00FF010203');
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-1',X'C7D719D34426D92383670A1D0ED4E81F417548C95D206A5D65F55061FDD66515','table_book','1.0.0','{"at":12345678901234567890123,"note":"\"a\" ü\n","rate":1.0e5}','done','[{"number":1,"nonce":[0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000032000,"question":null,"tool_version":"1.0.0","outcome":"succeeded"}]','{"number":1}',NULL,NULL,'leg',-1,5,6,7,1,'{"due":{"failed":0}}',1,'{"risk":"low"}',1700000002000,1700000003000,'process 1',1700000032000,0,X'16A7829D5A290DE89BD78199E9053B490B5A91CF8ADC5C7D9936939FB74695A6','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-2',X'95A7599F081CF8EA768C5F6497F6C02B9C92B5ECDE2B1DC231034F799A69A915','table_book','1.0.0','{"at":"2"}','running','[{"number":1,"nonce":[0,0,0,0,0,0,0,2,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000323000,"question":null,"tool_version":"1.0.0","outcome":{"asked":{"until_unix_ms":1700000323000}}}]',NULL,NULL,NULL,'leg',1,NULL,8,8,0,'{"due":{"failed":0}}',0,'{}',1700000004000,1700000004000,'',1700000323000,0,X'F62428EC7A3A51E9543E1D5E2C26AB6298BEE534B3322664D5892C4A66D45D42','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-3',X'BA8D0E00C4DD6D05C2B9638B9421C4ED9D5D47A3A7A9646F9494568066CD8A94','table_book','1.0.0','{"at":"3"}','running','[{"number":1,"nonce":[0,0,0,0,0,0,0,3,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000035000,"question":null,"tool_version":"1.0.0","outcome":null}]',NULL,'effect-2',7,'leg',0,NULL,9,9,1,'{"due":{"failed":0}}',0,'{}',1700000005000,1700000005000,'process 1',1700000035000,0,X'6D9A4BAF93C9B54C559A79B272EF1CE1854D1CF51819869B52F4E1670C5DDBB4','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-4',X'85B1A4015D135EC8CD98778C5AB029505FD337E95211D51ED74072AD0C8D9443','table_book','1.0.0','{"at":"4"}','unknown','[{"number":1,"nonce":[0,0,0,0,0,0,0,4,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000036000,"question":null,"tool_version":"1.0.0","outcome":"unknown"}]','{"number":4}',NULL,NULL,'leg',1,NULL,10,11,0,'{"tried":{"failed":1,"next_at_unix_ms":1700000044000}}',0,'{}',1700000006000,1700000007000,'process 1',1700000036000,1700000044000,X'6588F08E73D48F1B7AAC0EAA8BFA286959E7CF9DC55200E0ADEF0E63AD2F29A3','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-5',X'34AF365A5B5DA2A5DE6BA956AA60B4C539E34F93B883CFDFE3459A38382F1A13','table_book','1.0.0','{"at":"5"}','not_done','[{"number":1,"nonce":[0,0,0,0,0,0,0,5,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000038000,"question":null,"tool_version":"1.0.0","outcome":"failed"}]','{"number":5}',NULL,NULL,'leg',1,NULL,12,13,0,'{"due":{"failed":0}}',0,'{}',1700000008000,1700000009000,'process 1',1700000038000,0,X'6E094A61FB14528BC63F2897DB718C3DBF2CD1B5918AFB7208F3444B797A49D3','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-6',X'4E71CA9EF3877488553EDF25493C71FB30F7FDF96901C57AACCE498CD9968FF7','table_book','1.0.0','{"at":"6"}','running','[{"number":1,"nonce":[0,0,0,0,0,0,0,6,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700086411000,"question":null,"tool_version":"1.0.0","outcome":{"accepted":{"until_unix_ms":1700086411000}}}]','{"number":6}',NULL,NULL,'leg',1,NULL,14,14,0,'{"due":{"failed":0}}',0,'{}',1700000010000,1700000010000,'',1700086411000,0,X'B2EB37DCB6CB1BCD4ECF8657A050A50BD25DF706BC9D9A4BFEBE36E49EED4B12','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-7',X'146312C9477928D9702AAA4D6C8F1C09B3B556A59655790CFE8630D87A4BD0AC','table_book','1.0.0','{"at":"7"}','running','[{"number":1,"nonce":[0,0,0,0,0,0,0,7,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000042000,"question":null,"tool_version":"1.0.0","outcome":null}]',NULL,NULL,NULL,'leg',1,NULL,15,15,0,'{"due":{"failed":0}}',0,'{}',1700000012000,1700000012000,'process 1',1700000042000,0,X'0F9CB1A32E79E41D6FE41263D6D438703343EF33911643B0E1BEB20CCF6E0079','{"names":[]}',4112869306888449423,'{"is_read_only":false,"is_external":false,"progress":{"message":"half","fraction":0.1,"at_unix_ms":1700000013000},"is_sent":false}','alice',0);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-8',X'633DE7041E3BA65095ABBC6BF9ADF7F416E1C24E1BBF20E1F174C865BB4A7936','table_book','1.0.0','{"at":"8"}','done','[{"number":1,"nonce":[0,0,0,0,0,0,0,8,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000044000,"question":null,"tool_version":"1.0.0","outcome":"succeeded"}]','{"number":8}',NULL,NULL,'leg',1,NULL,16,17,0,'{"due":{"failed":0}}',0,'{}',1700000014000,1700000015000,'process 1',1700000044000,0,X'6367E731E62694A49683F0259592EE45FD0175C91F2C93ED8B62F5EEDFA82059','{"names":[]}',4112869306888449423,'{"is_read_only":false,"is_external":false,"is_sent":false}','alice',0);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-110',X'878BE66F52533133C8C986C5A5D43D1732A5FD241340EEA5AC5209F1E0496296','table_book','1.0.0','{"at":"10"}','running','[{"number":1,"nonce":[0,0,0,0,0,0,0,110,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000049000,"question":2,"tool_version":"1.0.0","outcome":null}]',NULL,NULL,NULL,'leg',1,NULL,21,21,0,'{"due":{"failed":0}}',0,'{}',1700000019000,1700000019000,'process 1',1700000049000,0,X'4B8E3CF59BA341DCCAF6A142FFCB615FD443876C609FCFBA1A7566587BCC3804','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('default','talk','effect-111',X'C4C9F39D7DE5ACA0FCDBDC55389E91F8C2ED97D6358BCFF5DE8D3BFBEFAD91D1','table_book','1.0.0','{"at":"11"}','running','[{"number":1,"nonce":[0,0,0,0,0,0,0,111,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000051000,"question":3,"tool_version":"1.0.0","outcome":null}]',NULL,NULL,NULL,'leg',1,NULL,24,24,0,'{"due":{"failed":0}}',0,'{}',1700000021000,1700000021000,'process 1',1700000051000,0,X'9B02E26AE53AB5FD9CC15548CDFFB544305B99671244C49AE1F7A7ACEF56E4D3','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO effects (tenant, conversation_id, effect_id, key, tool, tool_version, arguments, state, attempts, receipt, parent, ordinal, leg, generation, onset, first_entry, last_entry, is_heard, lookup, is_audited, intent, begun_at_unix_ms, changed_at_unix_ms, owner, lease_end_unix_ms, lookup_at_unix_ms, near, key_spec, key_fingerprint, task, task_user, task_is_sent) VALUES ('other','talk','effect-20',X'D1F22C2A0716D96D5582D05B0FC1A6DC16F661D0C2B3CBD7D4E10DCA9B461A13','table_book','1.0.0','{"at":"20"}','running','[{"number":1,"nonce":[0,0,0,0,0,0,0,20,0,0,0,0,0,0,0,0],"owner":"process 1","lease_end_unix_ms":1700000062000,"question":null,"tool_version":"1.0.0","outcome":null}]',NULL,NULL,NULL,'other leg',1,NULL,1,1,0,'{"due":{"failed":0}}',0,'{}',1700000032000,1700000032000,'process 1',1700000062000,0,X'51D54C0770EDFF25EE853327E87C9C14CA3261711E39532E90E0E263A9DE8FED','{"names":[]}',4112869306888449423,NULL,NULL,NULL);
INSERT INTO questions (tenant, conversation_id, number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input) VALUES ('default','talk',1,X'717D55AFB95B7E6FAB229B6FB6EF0BDFBA5468263FC860722E38C8124288F471','table_book','1.0.0',NULL,'{"at":"9"}','Book a table','{"external_content":false}','voice','alice','leg',1,NULL,9,X'00000000000000090000000000000000','denied',NULL,19,1,1700000016000,1700000316000,X'23253CA43317B5E2E93BF019C3155D9572CEF8BE0C813377324E6B22B40B0CA7','too dear','the condition holds: true','[[0,3600]]',NULL);
INSERT INTO questions (tenant, conversation_id, number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input) VALUES ('default','talk',2,X'878BE66F52533133C8C986C5A5D43D1732A5FD241340EEA5AC5209F1E0496296','table_book','1.0.0',NULL,'{"at":"10"}','Book a table','{"external_content":false}','voice','alice','leg',1,NULL,10,X'000000000000000A0000000000000000','approved','effect-110',22,0,1700000018000,1700000318000,X'4B8E3CF59BA341DCCAF6A142FFCB615FD443876C609FCFBA1A7566587BCC3804',NULL,'the condition holds: true','[[0,3600]]',NULL);
INSERT INTO questions (tenant, conversation_id, number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input) VALUES ('default','talk',3,X'C4C9F39D7DE5ACA0FCDBDC55389E91F8C2ED97D6358BCFF5DE8D3BFBEFAD91D1','table_book','1.0.0',NULL,'{"at":"11"}','Book a table','{"external_content":false}','voice','alice','leg',1,NULL,-1,X'000000000000000B0000000000000000','approved','effect-111',25,0,1700000020000,1700000320000,X'9B02E26AE53AB5FD9CC15548CDFFB544305B99671244C49AE1F7A7ACEF56E4D3',NULL,NULL,NULL,NULL);
INSERT INTO questions (tenant, conversation_id, number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input) VALUES ('default','talk',4,X'923098A816E45AEB4AF51B5A1698D27DD4D713805FAF2496BA0704115E9D8A72','table_book','1.0.0',NULL,'{"at":"12"}','Book a table','{"external_content":false}','voice','alice','leg',1,NULL,12,X'000000000000000C0000000000000000','open',NULL,27,1,1700000022000,1700000322000,X'270D33AA867F833642A9BAAA178EAA65D102FBCA46B72DC5E191900EC8CE4B6A',NULL,'the condition holds: true','[[0,3600]]',NULL);
INSERT INTO questions (tenant, conversation_id, number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input) VALUES ('default','talk',5,X'95A7599F081CF8EA768C5F6497F6C02B9C92B5ECDE2B1DC231034F799A69A915','table_book','1.0.0',NULL,'{"at":"2"}','Book a table','{"external_content":false}','voice','alice','leg',1,NULL,2,X'000000000000000D0000000000000000','open',NULL,28,1,1700000023000,1700000323000,X'F62428EC7A3A51E9543E1D5E2C26AB6298BEE534B3322664D5892C4A66D45D42',NULL,NULL,NULL,'{"asked":"[{\"id\":\"size\"}]","run":["effect-2",1]}');
INSERT INTO questions (tenant, conversation_id, number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input) VALUES ('default','talk',6,X'C7D719D34426D92383670A1D0ED4E81F417548C95D206A5D65F55061FDD66515','table_book','1.0.0',NULL,'{"at":12345678901234567890123,"note":"\"a\" ü\n","rate":1.0e5}','Book a table','{"earlier":[{"effect_id":"effect-1","certainty":"done","at_unix_ms":1700000003000,"arguments":"{\"at\":12345678901234567890123,\"note\":\"\\\"a\\\" ü\\n\",\"rate\":1.0e5}"}],"external_content":false}','voice','alice','leg',1,29,15,X'000000000000000F0000000000000000','open',NULL,30,1,1700000027000,1700000327000,X'16A7829D5A290DE89BD78199E9053B490B5A91CF8ADC5C7D9936939FB74695A6',NULL,NULL,NULL,NULL);
INSERT INTO questions (tenant, conversation_id, number, key, tool, tool_version, handler_hash, arguments, preview, hazards, mode, user_id, leg, generation, onset, call, nonce, state, effect_id, last_entry, is_heard, asked_at_unix_ms, expires_at_unix_ms, near, reason, because, clock, input) VALUES ('default','talk',7,X'D2C90319CE45A318E794974CB637DB4DC182E164B6D0D396EB56CD5AF88CC7B5','table_book','1.0.0',NULL,'{"at":"14"}','Book a table','{"external_content":true}','voice','alice','leg',1,NULL,14,X'000000000000000E0000000000000000','open',NULL,31,1,1700000029000,1700000329000,X'07EA6FA7EC97AFA4E02032250B321DB9D0D7AC1C1B498DD3D6C11F9D26F5E405',NULL,NULL,NULL,NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_1',-1,X'C7D719D34426D92383670A1D0ED4E81F417548C95D206A5D65F55061FDD66515',X'9E7BFE05B54FCAC14EB42FAC7AE890FF77F891456E25491B7A12F09A35C747D4','effect-1',NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_10',1,X'878BE66F52533133C8C986C5A5D43D1732A5FD241340EEA5AC5209F1E0496296',X'F115228111CDAB7A77AF97FBBC3D72753E502B046E12E204204D8B90AF9365E3',NULL,2);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_11',1,X'C4C9F39D7DE5ACA0FCDBDC55389E91F8C2ED97D6358BCFF5DE8D3BFBEFAD91D1',X'EB0F4F5663F15E72FA84D502DC85554EC6293A3555CA242F06CCDC48BFC03DB2',NULL,3);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_12',1,X'923098A816E45AEB4AF51B5A1698D27DD4D713805FAF2496BA0704115E9D8A72',X'1556F8F5C5812701528EACBB0DE272B899C222380604D780EA18CA9AA74B3629',NULL,4);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_14',1,X'D2C90319CE45A318E794974CB637DB4DC182E164B6D0D396EB56CD5AF88CC7B5',X'3CF8DC3FA63FEBB4BB6B9CC63A28B51CA2FAD99CF640DC01CD0EA359077A647C',NULL,7);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_15',1,X'C7D719D34426D92383670A1D0ED4E81F417548C95D206A5D65F55061FDD66515',X'9E7BFE05B54FCAC14EB42FAC7AE890FF77F891456E25491B7A12F09A35C747D4',NULL,6);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_2',1,X'95A7599F081CF8EA768C5F6497F6C02B9C92B5ECDE2B1DC231034F799A69A915',X'59E35738841397863B19A4C0F9B4B57728F5B87220AE2ED5ECFE4EC6C0E97102','effect-2',NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_4',1,X'85B1A4015D135EC8CD98778C5AB029505FD337E95211D51ED74072AD0C8D9443',X'7A03F8AC2BF084681E77F1019624E59478581861C115DF0BA8E6532054CF466A','effect-4',NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_5',1,X'34AF365A5B5DA2A5DE6BA956AA60B4C539E34F93B883CFDFE3459A38382F1A13',X'E6C0817607EA2237072DB32BC3CC06B73E10E4C0C0895F73E39C6F31FA3026AC','effect-5',NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_6',1,X'4E71CA9EF3877488553EDF25493C71FB30F7FDF96901C57AACCE498CD9968FF7',X'837BE9A67811ACFE93B303C856E4FE28C942DC5AB41D19B34F19D4222F16C12C','effect-6',NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_7',1,X'146312C9477928D9702AAA4D6C8F1C09B3B556A59655790CFE8630D87A4BD0AC',X'CA0E293466FBC8379940AA80C34825B4C775F5AD9235EA7806F62B58DFCFE229','effect-7',NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_8',1,X'633DE7041E3BA65095ABBC6BF9ADF7F416E1C24E1BBF20E1F174C865BB4A7936',X'502D2C8429DFEA9A3B25E3D399C8B5188166146FE028F4AE821EE9EEA0DE84F2','effect-8',NULL);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('default','talk','leg','call_9',1,X'717D55AFB95B7E6FAB229B6FB6EF0BDFBA5468263FC860722E38C8124288F471',X'483A9275DFEE2B0F4A2159AA8856CBD35C497604DFBA8FB21C9CFB9CFB036429',NULL,1);
INSERT INTO deliveries (tenant, conversation_id, leg, id, generation, key, arguments, effect_id, question) VALUES ('other','talk','other leg','call_20',1,X'D1F22C2A0716D96D5582D05B0FC1A6DC16F661D0C2B3CBD7D4E10DCA9B461A13',X'C7738131F67198E5049096D0AF4973AE4A2379B653B1111234D2E624F6087107','effect-20',NULL);
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',1,1700000001000,'leg',NULL,NULL,'{"attached":"voice"}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',2,1700000001000,'leg',1,'key 1','={"kind":"words","role":"user","text":"Order tea, \"hot\"."}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',3,1700000001000,'leg',2,'key 2','={"kind":"words","role":"assistant","text":"Hello!"}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',4,1700000001000,'leg',3,NULL,'={}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',5,1700000001000,'leg',4,NULL,'"onset"');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',6,1700000002000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-1","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',7,1700000003000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-1","tool":"table_book","attempt":1,"state":"done"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',8,1700000004000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-2","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',9,1700000005000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-3","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',10,1700000006000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-4","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',11,1700000007000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-4","tool":"table_book","attempt":1,"state":"unknown"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',12,1700000008000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-5","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',13,1700000009000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-5","tool":"table_book","attempt":1,"state":"not_done"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',14,1700000010000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-6","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',15,1700000012000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-7","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',16,1700000014000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-8","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',17,1700000015000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-8","tool":"table_book","attempt":1,"state":"done"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',18,1700000016000,'leg',NULL,NULL,'{"question":{"number":1,"tool":"table_book","state":"open"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',19,1700000017000,'leg',NULL,NULL,'{"question":{"number":1,"tool":"table_book","state":"denied"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',20,1700000018000,'leg',NULL,NULL,'{"question":{"number":2,"tool":"table_book","state":"open"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',21,1700000019000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-110","tool":"table_book","attempt":1,"state":"running","question":2}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',22,1700000019000,'leg',NULL,NULL,'{"question":{"number":2,"tool":"table_book","state":"approved","effect_id":"effect-110"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',23,1700000020000,'leg',NULL,NULL,'{"question":{"number":3,"tool":"table_book","state":"open"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',24,1700000021000,'leg',NULL,NULL,'{"effect":{"effect_id":"effect-111","tool":"table_book","attempt":1,"state":"running","question":3}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',25,1700000021000,'leg',NULL,NULL,'{"question":{"number":3,"tool":"table_book","state":"approved","effect_id":"effect-111"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',26,1700000021000,'leg',NULL,NULL,'{"standing":{"question":3,"tool":"table_book","event":"given"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',27,1700000022000,'leg',NULL,NULL,'{"question":{"number":4,"tool":"table_book","state":"open"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',28,1700000023000,'leg',NULL,NULL,'{"question":{"number":5,"tool":"table_book","state":"open"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',29,1700000025000,'leg',5,NULL,'"onset"');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',30,1700000027000,'leg',NULL,NULL,'{"question":{"number":6,"tool":"table_book","state":"open"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('default','talk',31,1700000029000,'leg',NULL,NULL,'{"question":{"number":7,"tool":"table_book","state":"open"}}');
INSERT INTO entries (tenant, conversation_id, number, at_unix_ms, leg, leg_number, key, event) VALUES ('other','talk',1,1700000032000,'other leg',NULL,NULL,'{"effect":{"effect_id":"effect-20","tool":"table_book","attempt":1,"state":"running"}}');
INSERT INTO abandoned (tenant, conversation_id, nonce, at_unix_ms) VALUES ('default','talk',X'00000000000003840000000000000000',1700000032000);
INSERT INTO key_specs (tool, key_fingerprint, used_at_unix_ms) VALUES ('table_book',4112869306888449423,1700000002000);
INSERT INTO parties (kind, party, conversations) VALUES ('address',X'1EA1B41272A7AB26F840CA5CBFB001CA',1);
INSERT INTO parties (kind, party, conversations) VALUES ('address',X'29AC5AAB181C905B163D8B37B0D25D52',1);
INSERT INTO parties (kind, party, conversations) VALUES ('tenant',X'64656661756C74',2);
INSERT INTO parties (kind, party, conversations) VALUES ('tenant',X'6F74686572',1);
INSERT INTO parties (kind, party, conversations) VALUES ('user',X'98DD1AC03BCCDBBB7F60141B5E3F4F11',1);
INSERT INTO ended_clients (number, client_id) VALUES (1,'ended');

CREATE INDEX blocks_by_end ON blocks (until_unix_ms);
CREATE INDEX conversations_by_use ON conversations (used_at_unix_ms);
CREATE INDEX legs_by_token ON legs (resume_token);
CREATE INDEX legs_by_end ON legs (expires_at_unix_ms);
CREATE INDEX effects_by_parent ON effects (tenant, conversation_id, parent, ordinal) WHERE parent IS NOT NULL;
CREATE INDEX effects_running ON effects (tenant, conversation_id, lease_end_unix_ms, owner) WHERE state = 'running';
CREATE INDEX effects_unheard ON effects (tenant, conversation_id) WHERE is_heard = 0 AND state <> 'running';
CREATE INDEX effects_unknown ON effects (lookup_at_unix_ms) WHERE state = 'unknown';
CREATE INDEX effects_unaudited ON effects (changed_at_unix_ms) WHERE is_audited = 0 AND state <> 'running';
CREATE INDEX questions_by_key ON questions (tenant, conversation_id, key);
CREATE INDEX questions_open ON questions (tenant, conversation_id, expires_at_unix_ms) WHERE state = 'open';
CREATE INDEX questions_unheard ON questions (tenant, conversation_id) WHERE is_heard = 0;
CREATE INDEX questions_by_end ON questions (expires_at_unix_ms);
CREATE INDEX entries_by_key ON entries (tenant, conversation_id, key) WHERE key IS NOT NULL;
CREATE INDEX abandoned_by_time ON abandoned (at_unix_ms);
CREATE INDEX effects_by_near ON effects (tenant, conversation_id, near);
CREATE INDEX conversations_empty_of_address ON conversations (address, used_at_unix_ms)
        WHERE address IS NOT NULL AND last_entry = 0;
CREATE INDEX conversations_empty_of_beginner ON conversations (beginner, used_at_unix_ms)
        WHERE beginner IS NOT NULL AND last_entry = 0;
CREATE INDEX conversations_empty_of_tenant ON conversations (tenant, used_at_unix_ms) WHERE last_entry = 0;
CREATE TRIGGER conversation_begins AFTER INSERT ON conversations BEGIN
        INSERT INTO parties (kind, party, conversations)
            SELECT 'address', new.address, 1 WHERE new.address IS NOT NULL
            ON CONFLICT DO UPDATE SET conversations = conversations + 1;
        INSERT INTO parties (kind, party, conversations)
            SELECT 'user', new.beginner, 1 WHERE new.beginner IS NOT NULL
            ON CONFLICT DO UPDATE SET conversations = conversations + 1;
        INSERT INTO parties (kind, party, conversations) VALUES ('tenant', CAST(new.tenant AS BLOB), 1)
            ON CONFLICT DO UPDATE SET conversations = conversations + 1;
    END;
CREATE TRIGGER conversation_ends AFTER DELETE ON conversations BEGIN
        UPDATE parties SET conversations = conversations - 1 WHERE kind = 'address' AND party = old.address;
        DELETE FROM parties WHERE kind = 'address' AND party = old.address AND conversations < 1;
        UPDATE parties SET conversations = conversations - 1 WHERE kind = 'user' AND party = old.beginner;
        DELETE FROM parties WHERE kind = 'user' AND party = old.beginner AND conversations < 1;
        UPDATE parties SET conversations = conversations - 1 WHERE kind = 'tenant' AND party = CAST(old.tenant AS BLOB);
        DELETE FROM parties WHERE kind = 'tenant' AND party = CAST(old.tenant AS BLOB) AND conversations < 1;
    END;
CREATE INDEX conversations_by_user ON conversations (tenant, user_id);
CREATE INDEX effects_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running' AND task_user IS NULL;
CREATE INDEX tasks_by_change ON effects (changed_at_unix_ms) WHERE state <> 'running' AND task_user IS NOT NULL;
CREATE INDEX tasks_by_conversation ON effects (tenant, conversation_id) WHERE task_user IS NOT NULL;
CREATE INDEX tasks_by_user ON effects (tenant, task_user, begun_at_unix_ms) WHERE task_user IS NOT NULL;
CREATE INDEX tasks_running ON effects (tenant, task_user) WHERE task_user IS NOT NULL AND state = 'running';
CREATE INDEX tasks_unsent ON effects (changed_at_unix_ms) WHERE task_is_sent = 0 AND state <> 'running';
