//! What a peer does wrong: the rules that a frame or a message breaks, each with the code that the peer gets (RFC 9113 section 7).

use std::fmt;

use super::Code;

macro_rules! faults {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $code:ident, $text:literal;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// The code that the peer gets.
            pub fn code(self) -> Code {
                match self {
                    $(Self::$variant => Code::$code,)*
                }
            }
        }

        impl std::error::Error for $name {}

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $text,)*
                })
            }
        }
    };
}

faults! {
    /// A rule that a frame breaks, or its place: a connection error (RFC 9113 section 5.4.1). The peer is at fault.
    FrameFault {
        /// It is longer than our `SETTINGS_MAX_FRAME_SIZE`, which is the initial one (section 4.2).
        TooLong = FRAME_SIZE_ERROR, "a frame is longer than 16,384 bytes";
        /// Its payload ends before the fields that its flags announce (sections 6.1 and 6.2).
        DataTooShort = FRAME_SIZE_ERROR, "DATA is too short for its flags";
        /// The same of `HEADERS` (section 6.2).
        HeadersTooShort = FRAME_SIZE_ERROR, "HEADERS is too short for its flags";
        /// Its padding is as long as its payload, or longer (sections 6.1 and 6.2).
        Padding = PROTOCOL_ERROR, "the padding is longer than its frame";
        /// It stands between the frames of a header block (section 4.3).
        WithinHeaderBlock = PROTOCOL_ERROR, "another frame stands within a header block";
        /// A `CONTINUATION` follows no header block (section 6.10).
        ContinuationAlone = PROTOCOL_ERROR, "CONTINUATION comes without a header block";
        /// The peer's preface does not begin with `SETTINGS` (section 3.4).
        NoSettings = PROTOCOL_ERROR, "the first frame is not SETTINGS";
        /// It names no stream, or an idle one (section 5.1).
        NoStream = PROTOCOL_ERROR, "a frame needs a stream, and names none, or one that nobody has opened";
        /// `DATA` comes for a stream that is closed (section 5.1).
        DataOnClosed = STREAM_CLOSED, "DATA comes for a stream that has ended";
        /// `HEADERS` comes for a stream that is closed (section 5.1).
        HeadersOnClosed = STREAM_CLOSED, "HEADERS comes for a stream that has ended";
        /// More `DATA` comes than the window of the connection allows (section 6.9.1).
        WindowExceeded = FLOW_CONTROL_ERROR, "the peer sends more than the connection's window allows";
        /// Our settings allow no push, and a client pushes nothing (section 6.6).
        PushPromise = PROTOCOL_ERROR, "PUSH_PROMISE comes, which was not allowed";
        /// `RST_STREAM` has another length (section 6.4).
        ResetLength = FRAME_SIZE_ERROR, "RST_STREAM is not four bytes long";
        /// `SETTINGS` concerns the connection (section 6.5).
        SettingsOnStream = PROTOCOL_ERROR, "SETTINGS is sent on a stream";
        /// `SETTINGS` holds settings of six bytes each (section 6.5).
        SettingsLength = FRAME_SIZE_ERROR, "SETTINGS has a length that is no multiple of 6";
        /// `SETTINGS` with the flag `ACK` has no payload (section 6.5).
        SettingsAckLength = FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS has a payload";
        /// `SETTINGS_ENABLE_PUSH` has another value, or is 1 from a server (section 6.5.2).
        EnablePush = PROTOCOL_ERROR, "SETTINGS_ENABLE_PUSH is neither 0 nor 1, or a server's";
        /// `SETTINGS_INITIAL_WINDOW_SIZE` is above the largest window (section 6.5.2).
        InitialWindowSize = FLOW_CONTROL_ERROR, "SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1";
        /// A change of `SETTINGS_INITIAL_WINDOW_SIZE` opens the window of a stream too far (section 6.9.2).
        SettingsOverflow = FLOW_CONTROL_ERROR, "SETTINGS makes a stream's window larger than 2^31-1";
        /// `SETTINGS_MAX_FRAME_SIZE` is out of its range (section 6.5.2).
        MaxFrameSize = PROTOCOL_ERROR, "SETTINGS_MAX_FRAME_SIZE is not 2^14 to 2^24-1";
        /// `SETTINGS_ENABLE_CONNECT_PROTOCOL` has another value, or 0 behind 1 (RFC 8441 section 3).
        EnableConnectProtocol = PROTOCOL_ERROR,
            "SETTINGS_ENABLE_CONNECT_PROTOCOL is neither 0 nor 1, or withdrawn";
        /// `SETTINGS_NO_RFC7540_PRIORITIES` has another value (RFC 9218 section 2.1).
        NoRfc7540Priorities = PROTOCOL_ERROR, "SETTINGS_NO_RFC7540_PRIORITIES is neither 0 nor 1";
        /// `PING` concerns the connection (section 6.7).
        PingOnStream = PROTOCOL_ERROR, "PING is sent on a stream";
        /// `PING` has another length (section 6.7).
        PingLength = FRAME_SIZE_ERROR, "PING is not eight bytes long";
        /// `GOAWAY` concerns the connection (section 6.8).
        GoAwayOnStream = PROTOCOL_ERROR, "GOAWAY is sent on a stream";
        /// `GOAWAY` has no room for its fields (section 6.8).
        GoAwayLength = FRAME_SIZE_ERROR, "GOAWAY is shorter than eight bytes";
        /// The last stream of a `GOAWAY` is above that of an earlier one (section 6.8).
        GoAwayRaised = PROTOCOL_ERROR, "a later GOAWAY names a higher stream";
        /// `WINDOW_UPDATE` has another length (section 6.9).
        WindowUpdateLength = FRAME_SIZE_ERROR, "WINDOW_UPDATE is not four bytes long";
        /// `WINDOW_UPDATE` of the connection has an increment of 0 (section 6.9).
        NoIncrement = PROTOCOL_ERROR, "WINDOW_UPDATE adds nothing";
        /// `WINDOW_UPDATE` opens the window of the connection too far (section 6.9.1).
        WindowOverflow = FLOW_CONTROL_ERROR, "the connection's window is larger than 2^31-1";
        /// `PRIORITY` concerns a stream (section 6.3).
        PriorityOnConnection = PROTOCOL_ERROR, "PRIORITY is not sent on a stream";
        /// `PRIORITY` has another length, and no stream that could end for it (section 6.3).
        PriorityLength = FRAME_SIZE_ERROR, "PRIORITY is not five bytes long";
        /// `PRIORITY_UPDATE` concerns the connection (RFC 9218 section 7.1).
        PriorityUpdateOnStream = PROTOCOL_ERROR, "PRIORITY_UPDATE is sent on a stream";
        /// `PRIORITY_UPDATE` has no room for its field, or comes from a server (RFC 9218 section 7.1).
        PriorityUpdate = PROTOCOL_ERROR, "PRIORITY_UPDATE is too short, or a server's";
        /// `PRIORITY_UPDATE` names no stream that a client opens (RFC 9218 section 7.1).
        PriorityUpdateStream = PROTOCOL_ERROR, "PRIORITY_UPDATE is about no stream of a client";
    }
}

faults! {
    /// A rule that a message breaks, or a frame of a stream: a stream error (RFC 9113 sections 5.4.2 and 8.1.1). The peer is at fault.
    MessageFault {
        /// The name of a field has a character that none may have, or its value has one at an end or anywhere (section 8.2.1).
        Field = PROTOCOL_ERROR,
            "the name of a field is no token in lower case, or its value has white space around it or a control character";
        /// The name of a field is longer than any that is kept.
        NameTooLong = PROTOCOL_ERROR, "the name of a field is too long";
        /// A field is of HTTP/1 alone, such as `Transfer-Encoding` (section 8.2.2).
        ConnectionField = PROTOCOL_ERROR, "a field concerns the connection alone";
        /// `TE` has another value (section 8.2.2).
        Te = PROTOCOL_ERROR, "`TE` is other than `trailers`";
        /// `Content-Length` comes twice (RFC 9110 section 8.6).
        TwoLengths = PROTOCOL_ERROR, "there are two `Content-Length`";
        /// `Content-Length` has a value that is no number (RFC 9110 section 8.6).
        Length = PROTOCOL_ERROR, "`Content-Length` is no number";
        /// A pseudo-header field follows a regular one (section 8.3).
        PseudoBehindOthers = PROTOCOL_ERROR, "a pseudo-header field stands behind others";
        /// The value of a pseudo-header field is not UTF-8.
        PseudoNoText = PROTOCOL_ERROR, "a pseudo-header field is no text";
        /// `:authority` holds what no host has, such as a user (section 8.3.1).
        Authority = PROTOCOL_ERROR, "`:authority` is no host";
        /// A request has a pseudo-header field that is not one of its own, or has it twice (section 8.3).
        RequestPseudo = PROTOCOL_ERROR,
            "a pseudo-header field is unknown, repeated, no protocol, or a response's";
        /// A response has a pseudo-header field that is not `:status`, or has that twice (section 8.3).
        ResponsePseudo = PROTOCOL_ERROR, "a pseudo-header field is unknown, repeated, or a request's";
        /// Trailers have a pseudo-header field (section 8.1).
        TrailersPseudo = PROTOCOL_ERROR, "trailers have no pseudo-header fields";
        /// Trailers have a field that routes or frames a message (RFC 9110 section 6.5.1).
        TrailersField = PROTOCOL_ERROR, "a field among the trailers belongs into the head";
        /// `:method` is no token (RFC 9110 section 9.1).
        Method = PROTOCOL_ERROR, "the method is no token";
        /// A request lacks a pseudo-header field, or has one that its method does not have, or one with an impossible value
        /// (sections 8.3.1 and 8.5).
        Target = PROTOCOL_ERROR,
            "`:method`, `:scheme`, `:path` or `:authority` is missing, or has an impossible value";
        /// `:protocol` stands beside another method, or was not allowed (RFC 8441 section 4).
        Protocol = PROTOCOL_ERROR, "`:protocol` belongs to a CONNECT, where it was allowed";
        /// `Host` does not say what `:authority` says (section 8.3.1).
        Host = PROTOCOL_ERROR, "`Host` is repeated, another than `:authority`, or missing as that is";
        /// `:status` is no status (section 8.3.2).
        Status = PROTOCOL_ERROR, "`:status` has not three digits";
        /// A response has no `:status` (section 8.3.2).
        NoStatus = PROTOCOL_ERROR, "`:status` is missing";
        /// A response has the status 101 (section 8.6).
        SwitchingProtocols = PROTOCOL_ERROR, "HTTP/2 has no 101";
        /// An interim response has the flag `END_STREAM` (section 8.1).
        InterimEnds = PROTOCOL_ERROR, "an interim response ends its stream";
        /// A head states a length above 0, and ends its stream (section 8.1.1).
        NoBody = PROTOCOL_ERROR, "a `Content-Length` is stated, and no body follows";
        /// A body ends before its stated length (section 8.1.1).
        BodyTooShort = PROTOCOL_ERROR, "a body is shorter than its `Content-Length`";
        /// A body goes on behind its stated length (section 8.1.1).
        BodyTooLong = PROTOCOL_ERROR, "a body is longer than its `Content-Length`";
        /// A tunnel carries `DATA` alone (section 8.5).
        TunnelTrailers = PROTOCOL_ERROR, "a tunnel has trailers";
        /// `HEADERS` behind a head do not end their stream, and so are no trailers (section 8.1).
        SecondHead = PROTOCOL_ERROR, "a second head comes, or trailers that do not end their stream";
        /// `DATA` comes before the head of its message (section 8.1).
        DataBeforeHead = PROTOCOL_ERROR, "DATA comes before a head";
        /// `DATA` follows the flag `END_STREAM` (section 5.1).
        DataBehindEnd = STREAM_CLOSED, "DATA comes behind the end of its stream";
        /// `HEADERS` follows the flag `END_STREAM` (section 5.1).
        HeadersBehindEnd = STREAM_CLOSED, "HEADERS comes behind the end of its stream";
        /// More `DATA` comes than the window of its stream allows (section 6.9.1).
        WindowExceeded = FLOW_CONTROL_ERROR, "the peer sends more than the stream's window allows";
        /// `WINDOW_UPDATE` has an increment of 0 (section 6.9).
        NoIncrement = PROTOCOL_ERROR, "WINDOW_UPDATE adds nothing";
        /// `WINDOW_UPDATE` opens the window of a stream too far (section 6.9.1).
        WindowOverflow = FLOW_CONTROL_ERROR, "the window of a stream is larger than 2^31-1";
        /// `PRIORITY` has another length (section 6.3).
        PriorityLength = FRAME_SIZE_ERROR, "PRIORITY is not five bytes long";
    }
}
